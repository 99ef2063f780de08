"""From one plan to another: every device ends with what its plan says that it holds."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import (
    Constraints,
    Graph,
    NotFound,
    OptimizerParallel,
    PlanError,
    Setup,
    Topology,
)
from meshwright.transfers.pieces import device_transfer
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, topology


def graph(width: int = 96) -> Graph:
    """Two layers and a loss; wide enough that optimizer state is sharded."""
    maker = GraphMaker(batch=48)
    x = maker.input("x", "batch", width)
    for k in range(2):
        weight = maker.parameter(f"layers.{k}.w", width, width * 4)
        out = maker.parameter(f"layers.{k}.v", width * 4, width)
        hidden = maker.op("matmul", [x, weight], ["batch", width * 4])
        x = maker.op("matmul", [hidden, out], ["batch", width])
    loss = maker.op("mean", [x], [], attrs={"dims": [0, 1]})
    return Graph.from_dict(maker.document(loss, loss=loss))


def planned(devices: Topology, width: int = 96, **setup: Any) -> PlanDocuments:
    how = Setup.from_dict({"memory_reserve": 0.0, **setup})
    answer = plan(toy_request(graph=graph(width), topology=devices, setup=how))
    assert answer.plan is not None
    return PlanDocuments(answer.plan, graph(width), devices, how)


@pytest.fixture(scope="module")
def six() -> PlanDocuments:
    return planned(topology(3, 2))


@pytest.fixture(scope="module")
def four() -> PlanDocuments:
    return planned(topology(2, 2))


@pytest.mark.parametrize("first", [0, 2, 6])
def test_every_device_ends_with_what_the_plan_says(
    six: PlanDocuments, four: PlanDocuments, first: int
) -> None:
    document = transfer_plans(six, four, first=first)
    parameters = four.plan.stages[0].parameters
    for state, expected in (
        ("value", sum(p.value_bytes for p in parameters)),
        ("optimizer", sum(p.optimizer_bytes for p in parameters)),
    ):
        assert expected > 0
        for rank in range(4):
            does = device_transfer(document, first + rank)
            pieces = [p for p in (*does.receives, *does.keeps) if p.state == state]
            assert sum(p.bytes * len(p.tensors) for p in pieces) == expected
    assert document.moved_bytes == document.needed_bytes - document.kept_bytes
    assert (document.from_plan, document.to_plan) == (six.plan.id, four.plan.id)
    assert (document.kept_bytes == 0) == (first == 6)
    assert document.levels[0][1] == (3 if first < 6 else 5)  # nodes of two devices


def dealt(*sizes: int) -> PlanDocuments:
    """Four parameters of which no dim divides by the nodes: their states are dealt out whole."""
    wish = OptimizerParallel(level=1, whole_parameters=True, threshold_kb=0)
    setup = Setup(global_batch=75, microbatches=1, memory_reserve=0.0, master_dtype=None)
    request = toy_request(
        graph=graph(98),
        topology=topology(*sizes),
        setup=setup,
        constraints=Constraints(optimizer_parallel=wish),
    )
    answer = plan(request)
    assert answer.plan is not None
    return PlanDocuments(answer.plan, request.graph, request.topology, setup)


def state_of(documents: PlanDocuments, rank: int) -> dict[str, int]:
    """Bytes of optimizer state of every parameter that a rank holds, as the plan says."""
    (stage,) = documents.plan.stages
    at = stage.mesh.coordinates(rank)
    return {
        own.tensor: own.dealt_bytes if own.owner else own.optimizer_bytes
        for own in stage.parameters
        if own.owner.items() <= at.items()
    }


@pytest.mark.parametrize(
    ("before", "after"), [((3, 1), (5, 1)), ((3, 1), (2, 1)), ((2, 1), (3, 1))]
)
def test_what_is_dealt_out_goes_from_owners_to_owners(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    source, target = dealt(*before), dealt(*after)
    owners = [any(p.owner for p in own.plan.stages[0].parameters) for own in (source, target)]
    assert owners == [sizes[0] != 2 for sizes in (before, after)]
    document = transfer_plans(source, target, state="optimizer", cluster=topology(8, 1))
    for rank in range(after[0]):
        wanted = state_of(target, rank)
        if not wanted:
            with pytest.raises(NotFound):
                device_transfer(document, rank)
            continue
        does = device_transfer(document, rank)
        found = dict.fromkeys(wanted, 0)
        for piece in (*does.receives, *does.keeps):
            for name in piece.tensors:
                found[name] += piece.bytes
                assert name in state_of(source, piece.source)
        assert found == wanted


def test_a_dealt_plan_moved_to_itself_stays() -> None:
    own = dealt(3, 1)
    document = transfer_plans(own, own)
    assert (document.moved_bytes, document.sends) == (0, 0)


def test_a_plan_moved_to_itself_stays(six: PlanDocuments) -> None:
    document = transfer_plans(six, six)
    assert (document.moved_bytes, document.sends, document.ns) == (0, 0, 0)


def test_only_what_is_asked_for_moves(six: PlanDocuments, four: PlanDocuments) -> None:
    parts = [transfer_plans(six, four, state=s).needed_bytes for s in ("value", "optimizer")]
    assert transfer_plans(six, four).needed_bytes == sum(parts)


def test_the_cluster_that_both_lie_in_can_be_named(six: PlanDocuments, four: PlanDocuments) -> None:
    cluster = topology(8, 2)
    document = transfer_plans(six, four, first=8, cluster=cluster)
    assert document.levels[0][1] == 8
    with pytest.raises(PlanError, match=r"devices 0 to 23, the cluster .* has 16"):
        transfer_plans(six, four, first=20, cluster=cluster)


def test_clusters_that_do_not_fit_together_are_refused(six: PlanDocuments) -> None:
    other = planned(topology(2, 3))
    with pytest.raises(PlanError, match=r"their nodes differ\. Name it with --cluster"):
        transfer_plans(six, other)
    alone = planned(topology(2))
    assert transfer_plans(six, alone).moved_bytes >= 0  # one node of the larger cluster
    with pytest.raises(PlanError, match="the links between them are not known"):
        transfer_plans(alone, alone, first=2)


def test_plans_of_other_models_are_refused(six: PlanDocuments) -> None:
    with pytest.raises(PlanError, match=r"parameter 'layers.0.w' of the shape \[48, 192\]"):
        transfer_plans(six, planned(topology(2, 2), width=48))


def test_an_optimizer_that_is_not_there_is_refused(six: PlanDocuments, four: PlanDocuments) -> None:
    serving = planned(topology(2, 2), phase="inference")
    with pytest.raises(PlanError, match="holds no optimizer state"):
        transfer_plans(serving, six)
    assert transfer_plans(serving, six, state="value").needed_bytes > 0
    # the other way its state is left behind
    assert {line.state for line in transfer_plans(six, serving).tensors} == {"value"}
    plain = planned(topology(2, 2), optimizer={"name": "sgd", "states": 1})
    with pytest.raises(PlanError, match=r"the optimizer state .* does not fit the target's"):
        transfer_plans(plain, four)
