"""Halves of a batch that take turns: by hand, against the simulation, and against no halves."""

from __future__ import annotations

import numpy as np
import pytest

from examples.plan_all import Case
from meshwright.schema import Degrees, Graph, Plan, Recompute, RecomputePolicy, Request, Setup
from meshwright_solver.evaluation.step_time.collective_chains import NOTHING, Chains
from meshwright_solver.evaluation.step_time.columns import (
    EDGE_COLUMNS,
    EDGE_READER,
    EDGE_THERE,
    NOBODY,
    OP_COLUMNS,
    OP_SEGMENT,
    VALUE_COLUMNS,
    VALUE_PRODUCER,
)
from meshwright_solver.evaluation.step_time.half_batches import in_halves
from meshwright_solver.evaluation.step_time.pass_times import forward
from meshwright_solver.evaluation.step_time.stage_dag import StageDag, indexed
from meshwright_solver.simulation.step import step_of
from meshwright_solver.simulation.tasks import Kind
from tests.solver.problem.test_expert_dims import mixture
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology
from tests.solver.verification.test_verify import decoder_layer

SENT = 1  # the chain of one collective


def two_ops(work_ns: float, moved_ns: float) -> StageDag:
    """One op after the other, with a collective between."""
    ops = np.zeros((2, OP_COLUMNS), dtype=np.int64)
    ops[:, OP_SEGMENT] = NOBODY
    edges = np.zeros((1, EDGE_COLUMNS), dtype=np.int64)
    edges[0, EDGE_READER], edges[0, EDGE_THERE] = 1, SENT
    values = np.zeros((1, VALUE_COLUMNS), dtype=np.int64)
    values[0, VALUE_PRODUCER] = 0
    nothing = np.zeros(0, dtype=np.int64)
    chains = Chains(
        first=np.array([0, 0, 1]),
        link=np.array([0]),
        ns=np.array([moved_ns]),
        buckets=np.array([1]),
    )
    assert NOTHING == 0
    return indexed(
        StageDag(
            chains=chains, links=1, ops=ops, ns=np.full((2, 3), work_ns), edges=edges,
            edge_first=nothing, values=values, output_first=nothing, outputs=nothing,
            segment_first=nothing, segments=nothing, host=np.zeros((1, 3)), update_ns=0.0,
            between_ns=0.0,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("work_ns", "moved_ns", "one", "both"),
    [
        # A1 0-10, B1 10-20; A sends 10-16, B 20-26; A2 20-30, B2 30-40: nothing waits
        (10.0, 6.0, 26.0, 40.0),
        # A sends 10-25, B 25-40; A2 25-35, B2 40-50: half of what is sent shows
        (10.0, 15.0, 35.0, 50.0),
    ],
)
def test_by_hand(work_ns: float, moved_ns: float, one: float, both: float) -> None:
    course = two_ops(work_ns, moved_ns)
    assert forward(course).longest_ns == one
    halves = in_halves(course)
    assert forward(halves).longest_ns == both
    assert forward(halves).work_ns == 2 * forward(course).work_ns


STATED: dict[str, tuple[str, dict[str, object], RecomputePolicy, int]] = {
    "tensor": ("llama3-8b", {"tp": 8}, "none", 8),
    "sequence": ("llama3-8b", {"tp": 8, "sequence_parallel": True, "zero": 1}, "none", 8),
    "zero 3": ("llama3-8b", {"zero": 3}, "full", 1),
    "cheap": ("llama3-8b", {"tp": 4, "zero": 2}, "cheap", 4),
    "experts": ("mixtral-8x7b", {"ep": 8, "zero": 1}, "none", 1),
}


def stated(name: str, copies: int) -> tuple[Request, Plan]:
    graph, degrees, policy, rounds = STATED[name]
    case = Case(graph, "h100-8x8", batch=128, seq=4096 if "llama" in graph else None)
    setup = {"microbatches": rounds * copies, "copies": copies}
    request = case.request.model_copy(
        update={
            "setup": case.request.setup.model_copy(update=setup),
            "degrees": Degrees.model_validate(degrees),
            "recompute": Recompute(policy=policy),
        }
    )
    return request, planned(request)


@pytest.mark.parametrize("name", STATED)
def test_the_step_is_the_simulated_one(name: str) -> None:
    request, found = stated(name, 2)
    step = step_of(found, request.graph, request.topology, request.setup)
    assert found.cost.step_ns == pytest.approx(step.ns, rel=0.03)
    # a plan's memory is what is simulated, or more
    simulated = step.curve(0).total.max() + step.static_bytes(0)
    assert simulated <= found.cost.memory_bytes.total - found.cost.memory_bytes.reserved
    # both halves' work, but parameters are gathered, and their gradients reduced, once for both
    kinds, program = step.program.kind, step.program
    assert (kinds == Kind.COMPUTE).sum() % 2 == 1  # the update is one
    alone_request, alone = stated(name, 1)
    other = step_of(alone, alone_request.graph, alone_request.topology, alone_request.setup)
    for kind in (Kind.PARAMETER, Kind.GRADIENT):
        assert (program.kind == kind).sum() == (other.program.kind == kind).sum()


@pytest.mark.parametrize("name", ["tensor", "sequence", "experts"])
def test_activations_move_beside_the_other_half(name: str) -> None:
    (_, alone), (_, both) = stated(name, 1), stated(name, 2)
    assert both.cost.exposed_ns["activation"] < 0.55 * alone.cost.exposed_ns["activation"]
    # kernels of half the rows: more launches, never less work
    assert both.cost.compute_ns > alone.cost.compute_ns
    assert both.cost.step_ns < alone.cost.step_ns


@pytest.mark.parametrize("sizes", [(4,), (2, 4)])
@pytest.mark.parametrize(
    ("graph", "policy", "phase"),
    [
        (decoder_layer(), "full", "training"),
        (decoder_layer(), "none", "inference"),
        (mixture(), "cheap", "training"),
    ],
    ids=["decoder", "inference", "experts"],
)
def test_small_plans_are_the_simulated_ones(
    graph: Graph, policy: RecomputePolicy, phase: str, sizes: tuple[int, ...]
) -> None:
    setup = Setup.model_validate({"phase": phase, "microbatches": 4, "copies": 2})
    request = toy_request(
        graph=graph, topology=topology(*sizes), setup=setup, recompute=Recompute(policy=policy)
    )
    found = planned(request)
    step = step_of(found, graph, request.topology, setup)
    assert found.cost.step_ns == pytest.approx(step.ns, rel=0.03)
    simulated = step.curve(0).total.max() + step.static_bytes(0)
    assert simulated <= found.cost.memory_bytes.total - found.cost.memory_bytes.reserved
