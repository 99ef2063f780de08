"""Recomputation in stages that have no repeats of their own."""

from __future__ import annotations

import pytest

from meshwright.schema import Pipeline, Plan, PlanError, Recompute, RecomputePolicy, Request, Setup
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology
from tests.solver.stage.recompute.layers import layered

LAYERS = 4


def asked(cuts: tuple[str, ...], policy: RecomputePolicy) -> Request:
    return toy_request(
        graph=layered(LAYERS),
        topology=topology(len(cuts) + 1),
        setup=Setup(microbatches=4),
        pipeline=Pipeline(ranks=len(cuts) + 1, schedule="1f1b", cuts=cuts),
        recompute=Recompute(policy=policy),
    )


def recomputed(plan: Plan) -> list[list[str]]:
    """By stage, the recomputed ops."""
    return [
        []
        if stage.recompute is None
        else [op for segment in stage.recompute.segments for op in segment.again]
        for stage in plan.stages
    ]


@pytest.mark.parametrize("policy", ["cheap", "full"])
def test_a_stage_of_one_layer_recomputes_what_the_whole_graph_does(policy: RecomputePolicy) -> None:
    cuts = tuple(f"{layer}.norm" for layer in range(1, LAYERS))
    request = asked(cuts, policy)
    plan = planned(request)
    whole = planned(request.model_copy(update={"pipeline": Pipeline(ranks=1)}))
    (of_whole,) = recomputed(whole)
    for layer, ops in enumerate(recomputed(plan)):
        assert ops
        assert ops == [op for op in of_whole if op.startswith(f"{layer}.")]
    saved = [sum(tensor.saved_bytes for tensor in stage.tensors) for stage in plan.stages]
    plain = planned(asked(cuts, "none"))
    before = [sum(tensor.saved_bytes for tensor in stage.tensors) for stage in plain.stages]
    assert all(less < more for less, more in zip(saved, before, strict=True))
    outcome = verify_documents(plan, request.graph, request.topology, request.setup).outcome
    assert outcome == "verified"


def test_a_stage_recomputes_its_parts_of_layers() -> None:
    """The first stage has half of the second layer, the second stage the other half."""
    request = asked(("1.up",), "full")
    plan = planned(request)
    first, second = recomputed(plan)
    assert {op.split(".")[0] for op in first} == {"0", "1"}
    assert {op.split(".")[0] for op in second} == {"1", "2", "3"}
    outcome = verify_documents(plan, request.graph, request.topology, request.setup).outcome
    assert outcome == "verified"


def test_a_plan_that_recomputes_less_than_was_asked_for_is_refused() -> None:
    cuts = tuple(f"{layer}.norm" for layer in range(1, LAYERS))
    request, plan = asked(cuts, "full"), planned(asked(cuts, "none"))
    wishes = plan.wishes.model_copy(update={"recompute": request.recompute})
    said = "stage 0: the plan does not recompute '0.add'"
    with pytest.raises(PlanError, match=said):
        verify_documents(
            plan.model_copy(update={"wishes": wishes}), request.graph, request.topology,
            request.setup,
        )  # fmt: skip


def test_a_stage_without_layers_is_no_reason_for_a_note() -> None:
    """The last stage is the loss alone; the others recompute."""
    plan = planned(asked(("2.norm", "loss"), "full"))
    assert [bool(ops) for ops in recomputed(plan)] == [True, True, False]
    assert not [note for note in plan.notes if "nothing is done again" in note]
