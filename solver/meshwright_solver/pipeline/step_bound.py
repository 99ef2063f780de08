"""A lower bound on the step of every configuration that a request allows, planned or not.

The time of an op is at least its work on one device, divided by its devices, and a launch for each
pass; communication is free. With

    T    ns of one microbatch's work on one device, L    its launches, of N devices in p equal ranks
    w    = T p / N + L, the same on one rank

some rank has at least the mean of the work, and one microbatch passes through all ranks:

    step >= m w / p        step >= w without the weights' half

With one stage per rank and whole passes (1f1b, gpipe), stage s waits for the forward passes of the
stages before it, and these wait for its last backward pass: step >= sum of w_r, r < s, + m w_s. The
largest of these is least if w_s falls by 1 - 1/m from stage to stage, so for any cuts:

    step >= w / (1 - (1 - 1/m)^p)

On groups of several kinds of devices op o takes t_ok on kind k, and for any prices y_k of a
device's time that add up to 1 over all devices

    step >= m sum over o of  min over k of y_k t_ok

(the dual of the assignment of ops; prices here are proportional to 1 / sum over o of t_ok). The
bound ignores memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meshwright.schema import Calibration, InvalidInput, Request, Topology
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.stage.microbatches import microbatch_counts
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_templates import OpSketches

_WHOLE_PASSES = ("1f1b", "gpipe")


def request_bound_ns(request: Request, anatomy: Anatomy, calibration: Calibration) -> float | None:
    """The lower bound of a step over all configurations that a request allows, one stage included;
    None without a proof."""
    wanted, alone = request.pipeline, list[int]()
    if wanted.ranks in (None, 1) and not wanted.cuts:
        alone = microbatch_counts(request)
    several = () if wanted.ranks == 1 else configurations(request, anatomy)
    return least_step_ns(request, anatomy, calibration, several, alone)


def least_step_ns(
    request: Request,
    anatomy: Anatomy,
    calibration: Calibration,
    wanted: Iterable[Configuration],
    alone: Iterable[int] = (),
) -> float | None:
    """The lower bound of a step; None without a proof (offload to hosts, or no valid run).

    alone: numbers of microbatches without a pipeline.
    """
    if request.constraints.offload != "none":
        return None
    works = _Works(request, anatomy, calibration)
    groups = request.topology.groups
    bounds = []
    for count in alone:
        for group, work in zip(groups, works.at(count), strict=False):
            bounds.append(count * (work.busy_ns / group.device_count + work.launches_ns))
    for configuration in wanted:
        of_groups = works.at(configuration.microbatches)
        if len(of_groups) > 1:
            devices = [group.device_count for group in groups]
            bounds.append(configuration.microbatches * _shared_ns(of_groups, devices))
        elif of_groups:
            bounds.append(_of_ranks_ns(of_groups[0], configuration, groups[0].device_count))
    return min(bounds, default=None)


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of one microbatch on one device.

    of_ops: (ops,), ns of all copies, without launches. chain_ns, chain_launches_ns: without the
    weights' half.
    """

    of_ops: FloatArray
    chain_ns: float
    launches_ns: float
    chain_launches_ns: float

    @property
    def busy_ns(self) -> float:
        return float(self.of_ops.sum())


def _of_ranks_ns(work: _Work, configuration: Configuration, devices: int) -> float:
    """The lower bound on equal ranks of devices of one kind."""
    each = devices / configuration.ranks
    rank_ns = work.busy_ns / each + work.launches_ns
    if configuration.schedule in _WHOLE_PASSES:
        return rank_ns / (1 - (1 - 1 / configuration.microbatches) ** configuration.ranks)
    chain_ns = work.chain_ns / each + work.chain_launches_ns
    return max(configuration.microbatches * rank_ns / configuration.ranks, chain_ns)


def _shared_ns(works: Sequence[_Work], devices: Sequence[int]) -> float:
    """The lower bound of one microbatch on groups of several kinds of devices."""
    rates = np.array([1 / max(work.busy_ns, 1e-9) for work in works])
    prices = rates / (rates * np.array(devices)).sum()
    priced = np.array([price * work.of_ops for price, work in zip(prices, works, strict=True)])
    return float(priced.min(axis=0).sum())


class _Works:
    """The work of a microbatch on one device of every group, by number of microbatches."""

    def __init__(self, request: Request, anatomy: Anatomy, calibration: Calibration) -> None:
        self.request = request
        self.anatomy = anatomy
        self.calibration = calibration
        self.folding = next(anatomy.foldings.of({}))
        self._known: dict[int, list[_Work]] = {}

    def at(self, microbatches: int) -> list[_Work]:
        """The work by group; empty if the graph does not divide into so many microbatches."""
        if microbatches not in self._known:
            groups = self.request.topology.groups
            try:
                works = [self._work(group, microbatches) for group in groups]
            except InvalidInput:
                works = []
            self._known[microbatches] = works
        return self._known[microbatches]

    def _work(self, group: Topology, microbatches: int) -> _Work:
        level = group.levels[-1].model_copy(update={"size": 1})
        device = group.model_copy(update={"levels": (level,)})
        setup = self.request.setup.model_copy(update={"microbatches": microbatches})
        nothing = self.calibration.model_copy(update={"launch_ns": 0})
        graph = self.folding.graph
        problem = build_problem(graph, device, setup, self.calibration, microbatches)
        values = find_values(problem)
        sketches = OpSketches(problem, values)
        (mesh, *_) = meshes(device, 1)
        models = Models(problem, values, mesh, sketches)
        without = Models(replace(problem, calibration=nothing), values, mesh, sketches)
        of_ops, chain, launches, chain_launches = [], 0.0, 0.0, 0.0
        for position, op in enumerate(problem.ops):
            if position in values.views or op.op.name not in self.anatomy.place:
                continue
            model = models.ops.model(position)
            copies = self.folding.stood_for.get(("op", op.op.name), 1)
            whole = copies * np.array(models.passes_ns(model, model.choices)).min(axis=1)
            busy = copies * np.array(without.passes_ns(model, model.choices)).min(axis=1)
            of_ops.append(busy.sum())
            chain += float(busy[:2].sum())
            launches += float((whole - busy).sum())
            chain_launches += float((whole - busy)[:2].sum())
        return _Work(np.array(of_ops), chain, launches, chain_launches)
