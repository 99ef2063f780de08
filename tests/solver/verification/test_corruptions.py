"""Plans that break what they say they were asked for, or claim more than can be proved, are refused
by the name of the field.

A plan made without a wish, under a document that states the wish, has right numbers everywhere. So
nothing but the wish itself can be what refuses it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from meshwright.schema import (
    Budget,
    Constraints,
    Degrees,
    OptimizerParallel,
    Pin,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    Request,
    Setup,
)
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright.schema.recompute import NO_RECOMPUTE
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.requests import mlp_request, planned, toy_request
from tests.solver.small_graphs import topology

ONE_STAGE = mlp_request(16, topology(2, 4), rows=32, width=256)
PIPELINE = toy_request(
    graph=layered(2, tied=True),
    topology=topology(2, 2),
    setup=Setup(microbatches=2),
    pipeline=Pipeline(ranks=2, schedule="zb_h1"),
)
RECOMPUTED = toy_request(
    graph=layered(4),
    topology=topology(2),
    setup=Setup(microbatches=1),
    recompute=Recompute(policy="full"),
)


def level(number: int, **more: Any) -> Constraints:
    wish = OptimizerParallel.model_validate({"level": number, "threshold_kb": 0, **more})
    return Constraints(optimizer_parallel=wish)


# by name: the request, the wishes that its plan is not asked for, and what the refusal says of them
FORGED: dict[str, tuple[Request, dict[str, Any], str]] = {
    "a strategy": (
        ONE_STAGE,
        {"pins": (Pin(op="up", strategy={"k": ("gpu",)}),)},
        r"pins\[0\] 'up:k=gpu': op 'up' has the strategy",
    ),
    "the second of two pins": (
        ONE_STAGE,
        {"pins": (Pin(op="act", data_parallel=True), Pin(op="act", strategy={}))},
        r"pins\[1\] 'act:': op 'act' has the strategy",
    ),
    "cuts of an output": (
        ONE_STAGE,
        {"pins": (Pin(op="down", outputs=((1, 1, 8),)),)},
        r"pins\[0\] .*: op 'down' has the strategy",
    ),
    "data parallelism": (
        toy_request(
            graph=ONE_STAGE.graph,
            topology=ONE_STAGE.topology,
            setup=ONE_STAGE.setup,
            pins=(Pin(op="up", strategy={"n": ("gpu",)}),),
        ),
        {"pins": (Pin(op="up", data_parallel=True),)},
        r"pins\[0\] 'up:data_parallel': op 'up' has the strategy n=",
    ),
    "a module": (
        toy_request(
            graph=ONE_STAGE.graph,
            topology=ONE_STAGE.topology,
            setup=ONE_STAGE.setup,
            pins=(Pin(op="down", strategy={"n": ("gpu",)}),),
        ),
        {"pins": (), "module": "up"},
        "module up: op '.*' has the strategy",
    ),
    "optimizer level 0": (
        ONE_STAGE.model_copy(update={"constraints": level(1)}),
        {"constraints": level(0)},
        "constraints.optimizer_parallel .*level=0.*: parameter '.*' has its value",
    ),
    "optimizer level 1": (
        ONE_STAGE.model_copy(update={"constraints": level(0)}),
        {"constraints": level(1)},
        "constraints.optimizer_parallel .*level=1.*: parameter '.*' has its value",
    ),
    "optimizer level 3": (
        ONE_STAGE.model_copy(update={"constraints": level(2)}),
        {"constraints": level(3)},
        "constraints.optimizer_parallel .*level=3.*: parameter '.*' has its value",
    ),
    "shards of at most two": (
        ONE_STAGE.model_copy(update={"constraints": level(1)}),
        {"constraints": level(1, shard_size=2)},
        "constraints.optimizer_parallel .*shard_size=2.*: parameter '.*' has its value",
    ),
    "stated degrees": (
        ONE_STAGE,
        {"degrees": Degrees(tp=4)},
        "degrees .*: the mesh is",
    ),
    "a product that tp does not cut": (
        ONE_STAGE.model_copy(
            update={
                "degrees": Degrees(tp=4),
                "pins": (Pin(op="up", strategy={"b0": ("dp",)}),),
            }
        ),
        {"pins": ()},
        "degrees .*: op 'up' has the strategy b0=dp",
    ),
    "a ZeRO stage of degrees": (
        ONE_STAGE.model_copy(update={"degrees": Degrees(dp=8, zero=0)}),
        {"degrees": Degrees(dp=8, zero=3)},
        "degrees .*: parameter '.*' has its value",
    ),
    "all devices or none": (
        mlp_request(3, topology(2, 3), rows=2, width=256),
        {"constraints": Constraints(fully_use_devices=True)},
        "constraints.fully_use_devices True: op '.*' has the strategy",
    ),
    "alignment of slices": (
        toy_request(
            graph=ONE_STAGE.graph,
            topology=ONE_STAGE.topology,
            setup=ONE_STAGE.setup,
            pins=(Pin(op="up", strategy={"n": ("node", "gpu")}),),
        ),
        {"pins": (), "constraints": Constraints(slice_alignment=1024)},
        "constraints.slice_alignment 1024: op 'up' has the strategy n=",
    ),
    "followers": (
        toy_request(
            graph=ONE_STAGE.graph,
            topology=ONE_STAGE.topology,
            setup=ONE_STAGE.setup,
            pins=(
                Pin(op="up", strategy={"b0": ("node",), "n": ("gpu",)}),
                Pin(op="act", strategy={"d0": ("gpu",), "d1": ("node",)}),
            ),
        ),
        {"pins": (), "constraints": Constraints(elementwise_follow=True)},
        "constraints.elementwise_follow true: op 'act' takes 'up:out' redistributed",
    ),
    "axes of the mesh": (
        toy_request(
            graph=ONE_STAGE.graph,
            topology=topology(4),
            setup=ONE_STAGE.setup,
            budget=Budget(max_axes=2),
        ),
        {"budget": Budget(max_axes=1)},
        "budget.max_axes 1: the mesh is",
    ),
    "the search": (
        ONE_STAGE,
        {"solver": "exact"},
        "solver exact: the plan has dynamic_programming",
    ),
    "recompute": (
        toy_request(
            graph=layered(4),
            topology=topology(2),
            setup=Setup(microbatches=1),
            recompute=Recompute(policy="full"),
        ),
        {"recompute": Recompute(policy="none")},
        "recompute.policy none: the plan has 'full'",
    ),
    "recompute of a plan that recomputes nothing": (
        RECOMPUTED.model_copy(update={"recompute": NO_RECOMPUTE}),
        {"recompute": Recompute(policy="full")},
        "recompute full: the plan does not recompute",
    ),
    "recompute in more blocks": (
        RECOMPUTED.model_copy(update={"recompute": Recompute(policy="full", blocks=2)}),
        {"recompute": Recompute(policy="full", blocks=3)},
        "recompute full in 3 blocks: the plan does not recompute",
    ),
    "recompute in fewer blocks": (
        RECOMPUTED,
        {"recompute": Recompute(policy="full", blocks=1)},
        "recompute full in 1 blocks: the plan recomputes",
    ),
    "ranks of a pipeline": (
        ONE_STAGE,
        {"pipeline": Pipeline(ranks=2)},
        "pipeline.ranks 2: the plan has 1",
    ),
    "no pipeline": (
        PIPELINE,
        {"pipeline": NO_PIPELINE},
        "pipeline.ranks 1: the plan has 2",
    ),
    "a schedule": (
        PIPELINE,
        {"pipeline": Pipeline(ranks=2, schedule="1f1b")},
        "pipeline.schedule 1f1b: the plan has zb_h1",
    ),
    "virtual stages": (
        PIPELINE,
        {"pipeline": Pipeline(ranks=2, stages_per_rank=2)},
        "pipeline.stages_per_rank 2: the plan has 1",
    ),
    "cuts of a pipeline": (
        PIPELINE.model_copy(
            update={"pipeline": Pipeline(ranks=2, schedule="zb_h1", cuts=("1.linear",))}
        ),
        {"pipeline": Pipeline(ranks=2, schedule="zb_h1", cuts=("0.add",))},
        "pipeline.cuts 0.add: stage",
    ),
    "a pin in the second stage": (
        PIPELINE,
        {"pins": (Pin(op="logits", strategy={"k": ("gpu",)}),)},
        r"pins\[0\] .*: stage 1: op 'logits' has the strategy",
    ),
}


@cache
def plan_of(name: str) -> Plan:
    return planned(FORGED[name][0])


def verified(request: Request, plan: Plan) -> str:
    found = verify_documents(plan, request.graph, request.topology, request.setup)
    return found.outcome


@pytest.mark.parametrize("name", FORGED)
def test_a_plan_that_breaks_a_wish_is_refused_by_its_name(name: str) -> None:
    request, wishes, why = FORGED[name]
    plan = plan_of(name)
    assert verified(request, plan) == "verified"
    forged = plan.model_copy(update={"wishes": plan.wishes.model_copy(update=wishes)})
    with pytest.raises(PlanError, match=why):
        verified(request, forged)


@pytest.mark.parametrize("name", FORGED)
def test_the_plan_that_is_asked_for_with_the_wish_keeps_it(name: str) -> None:
    request, wishes, _ = FORGED[name]
    asked = Request(**{**dict(request), **wishes})
    assert verified(asked, planned(asked)) == "verified"


def searched(plan: Plan, **changes: Any) -> Plan:
    """The plan with another word of its search; the gap goes with the bound."""
    search = plan.search.model_copy(update=changes)
    gap = (search.cost_ns - search.lower_bound_ns) / search.cost_ns
    return plan.model_copy(update={"search": search.model_copy(update={"gap": gap})})


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_no_bound_of_a_pipeline_is_above_its_proof(share: float) -> None:
    plan = planned(PIPELINE)
    search = plan.search
    assert search.step_bound_ns is not None
    open_ns = search.cost_ns - search.lower_bound_ns, search.cost_ns - search.step_bound_ns
    raised = (search.lower_bound_ns, search.step_bound_ns)
    lower_ns, step_ns = (own + share * left for own, left in zip(raised, open_ns, strict=True))
    with pytest.raises(PlanError, match=r"search\.lower_bound_ns .* can be proved"):
        verified(PIPELINE, searched(plan, lower_bound_ns=lower_ns))
    with pytest.raises(PlanError, match=r"search\.step_bound_ns .* can be proved"):
        verified(PIPELINE, searched(plan, step_bound_ns=step_ns))


def test_a_pipeline_is_optimal_only_on_a_bound_that_is_proved() -> None:
    plan = planned(PIPELINE)
    forged = searched(plan, outcome="optimal")
    with pytest.raises(PlanError, match="optimal"):
        verified(PIPELINE, forged)
    with pytest.raises(PlanError, match=r"search\.lower_bound_ns .* can be proved"):
        verified(PIPELINE, searched(forged, lower_bound_ns=plan.search.cost_ns))


def test_a_bound_of_all_configurations_is_proved_of_plans_of_one_stage_too() -> None:
    request = PIPELINE.model_copy(update={"pipeline": Pipeline(ranks=None)})
    plan = planned(request)
    bound_ns = plan.search.step_bound_ns
    assert bound_ns is not None
    assert verified(request, plan) == "verified"
    with pytest.raises(PlanError, match=r"search\.step_bound_ns .* can be proved"):
        verified(request, searched(plan, step_bound_ns=bound_ns * 1.001))


def test_a_bound_that_no_search_of_one_stage_proves_is_refused() -> None:
    request = ONE_STAGE.model_copy(update={"degrees": Degrees(tp=4)})
    plan = planned(request)
    with pytest.raises(PlanError, match="no such bound can be proved"):
        verified(request, searched(plan, step_bound_ns=1.0))


def test_microbatches_are_those_of_the_setup() -> None:
    request = mlp_request(16, topology(2, 4), rows=32, width=256)
    two = request.model_copy(update={"setup": Setup(microbatches=2)})
    forged = planned(two).model_copy(update={"setup": request.setup.id})
    with pytest.raises(PlanError, match=r"setup\.microbatches 1: the plan has 2"):
        verified(request, forged)


def test_what_a_plan_gives_up_for_being_simpler_is_within_its_budget() -> None:
    plan = planned(ONE_STAGE)
    extra_ns = plan.search.cost_ns / 2
    forged = searched(
        plan, simplicity_ns=extra_ns, lower_bound_ns=min(extra_ns, plan.search.lower_bound_ns)
    )
    with pytest.raises(PlanError, match=r"budget\.simplicity 0\.005: the plan costs"):
        verified(ONE_STAGE, forged)
