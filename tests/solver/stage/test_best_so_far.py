"""Whole plans of searches that go on: as right as any, never worse later on, and without a trace
in the search itself."""

from __future__ import annotations

import itertools

import pytest

from meshwright.schema import Answer, Plan, Recompute, Request, Setup, Topology
from meshwright_solver.planning.planner import plan
from meshwright_solver.stage.answer import NOT_ENDED
from meshwright_solver.stage.best_so_far import Make
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.requests import mlp_request, offered, planned, toy_request, transformer_mlp
from tests.solver.small_graphs import topology


def kept(request: Request) -> list[Plan]:
    """What a search keeps where everything that it offers is wanted."""
    answer, found = offered(request)
    assert answer.plan == planned(request)  # as if nobody had kept anything
    assert found
    return found


def check(request: Request, found: list[Plan]) -> None:
    for own in found:
        certificate = verify_documents(own, request.graph, request.topology, request.setup)
        assert certificate.outcome == "verified", certificate.detail
        assert own.wishes == request.wishes
    steps = [own.cost.step_ns for own in found]
    slack = 1 + request.budget.simplicity  # a simpler plan may take longer
    assert all(after <= before * slack for before, after in itertools.pairwise(steps))
    best = planned(request).cost.step_ns
    assert best <= steps[-1] * (1 + request.budget.simplicity)


@pytest.mark.parametrize("devices", [topology(2, 2), topology(2, 16)])
def test_of_one_stage_meshes_are_points_to_keep_a_plan_at(devices: Topology) -> None:
    request = mlp_request(4, devices)
    found = kept(request)
    check(request, found)
    first = found[0]
    assert NOT_ENDED in first.notes
    assert 0 < first.search.lower_bound_ns <= first.cost.objective_ns


def test_what_is_kept_says_what_was_not_searched_by_then() -> None:
    request = mlp_request(4, topology(2, 16)).model_copy(update={"solver": "recursive_programming"})
    own = kept(request)
    last = own[-1]
    meshes = set(planned(request).search.meshes)
    assert any(set(one.search.meshes) < meshes for one in own)
    notes = [note for one in own[:-1] for note in one.notes]
    assert any("the search had not come to it" in note for note in notes)
    assert not any("the search had not come to it" in note for note in last.notes)


def test_policies_tried_later_are_no_reason_to_keep_less() -> None:
    request = mlp_request(64, topology(2, 4)).model_copy(
        update={"recompute": Recompute(policy="full")}
    )
    check(request, kept(request))


def test_of_a_pipeline_configurations_are() -> None:
    request = toy_request(
        graph=layered(6, batch=64, width=512),
        topology=topology(4, 2, flops_per_s=1e11, bytes_per_s=1e9),
        pipeline={"ranks": None},
    )
    found = kept(request)
    check(request, found)
    assert any(NOT_ENDED in own.notes for own in found)


def test_a_plan_kept_of_one_way_to_run_is_a_plan_of_the_request() -> None:
    request = toy_request(
        graph=transformer_mlp(64, rows=64, width=512).graph("loss:out", loss="loss:out"),
        topology=topology(4, bytes_per_s=2e10, latency_ns=100),
        setup=Setup(microbatches=4, copies="auto"),
    )
    check(request, kept(request))


def test_a_keep_that_wants_nothing_has_nothing_made() -> None:
    offered: list[Make] = []
    answer = plan(mlp_request(4, topology(2, 4)), keep=offered.append)
    assert isinstance(answer, Answer)
    assert offered
