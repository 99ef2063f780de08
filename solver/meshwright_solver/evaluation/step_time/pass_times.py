"""Pass times of a stage DAG: critical path and traffic."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.evaluation.step_time.columns import OP_IS_AGAIN, OP_RUNS_BACKWARD
from meshwright_solver.evaluation.step_time.critical_path import (
    LinkState,
    walk_backward,
    walk_forward,
)
from meshwright_solver.evaluation.step_time.stage_dag import StageDag

Half = Literal["whole", "inputs", "weights"]


class PassTimes(NamedTuple):
    """Times of one pass.

    longest_ns: end of the last event. worked_ns: end of the last work. work_ns: sum of all work.
    ends: by kind and link. moved: by kind and link, the number of collectives, their time, and the
    sum of its squares.
    """

    longest_ns: float
    worked_ns: float
    work_ns: float
    ends: FloatArray
    moved: FloatArray


def forward(dag: StageDag) -> PassTimes:
    """Forward pass with parameters already gathered."""
    return _forward_pass(dag, with_parameters=False)


def forward_from_rest(dag: StageDag) -> PassTimes:
    """First forward pass of a step: parameters are spread and gathered in it."""
    return _forward_pass(dag, with_parameters=True)


def backward(dag: StageDag, half: Half) -> PassTimes:
    """Backward pass or one half of it, without waiting for gradient reductions."""
    return _backward_pass(dag, half, with_gradients=False)


def backward_to_rest(dag: StageDag, half: Half) -> PassTimes:
    """Last backward pass of a step, including gradient reductions."""
    return _backward_pass(dag, half, with_gradients=True)


def _forward_pass(dag: StageDag, *, with_parameters: bool) -> PassTimes:
    links = _links(dag, chains_each=2 * with_parameters)
    worked_ns = walk_forward(
        dag.chains, dag.ops, dag.ns, dag.edges, dag.edge_first, dag.values,
        with_parameters, links,
    )  # fmt: skip
    return _pass_times(worked_ns, float(dag.ns[:, 0].sum()), links)


def _backward_pass(dag: StageDag, half: Half, *, with_gradients: bool) -> PassTimes:
    links = _links(dag, chains_each=2 * with_gradients)
    worked_ns = walk_backward(
        dag.chains, dag.ops, dag.ns, dag.edges, dag.edge_first, dag.values,
        dag.output_first, dag.outputs, dag.segment_first, dag.segments,
        half != "weights", half != "inputs", with_gradients, links,
    )  # fmt: skip
    work_ns = 0.0
    if half != "weights":
        again = dag.ns[dag.ops[:, OP_IS_AGAIN] > 0, 0]
        runs = dag.ops[:, OP_RUNS_BACKWARD] > 0
        work_ns += float(dag.ns[runs, 1].sum() + again.sum())
    if half != "inputs":
        work_ns += dag.weights_ns
    return _pass_times(worked_ns, work_ns, links)


def _pass_times(worked_ns: float, work_ns: float, links: LinkState) -> PassTimes:
    ends = links.ends
    return PassTimes(
        max(worked_ns, float(ends.max(initial=0.0))), worked_ns, work_ns, ends, links.moved
    )


def _links(dag: StageDag, *, chains_each: int) -> LinkState:
    """Empty link state. chains_each: most deferrable chains per value and per edge."""
    longest = int(np.diff(dag.chains.first).max())
    most = chains_each * longest * (len(dag.values) + len(dag.edges))
    waiting = np.empty((dag.links, most + 1, 4))
    waiting[:, 0] = 0.0
    return LinkState(np.zeros((3, dag.links)), np.zeros((3, dag.links, 3)), waiting)
