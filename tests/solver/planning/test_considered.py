"""Configurations that a search considered: the request with the patch plans that configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from meshwright.schema import (
    Considered,
    Degrees,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    Request,
    Setup,
)
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.planning.planner import plan as answer_to
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.requests import planned, toy_request, transformer_mlp
from tests.solver.small_graphs import topology
from tests.solver.stage.recompute.layers import layered as blocks

ANY_RANKS = Pipeline(ranks=None, schedule="zb_h1")
SLOW_LINK: dict[str, Any] = {"bytes_per_s": 2e10, "latency_ns": 100}


def pipelines(microbatches: int | None = 4, **wanted: Any) -> Request:
    return toy_request(
        graph=layered(),
        topology=topology(4, 2),
        setup=Setup(microbatches=microbatches),
        pipeline=Pipeline.model_validate({"ranks": 2, **wanted}),
    )


def policies(devices: int, share: float, **wanted: Any) -> Request:
    """In the share of the memory that a plan takes that recomputes nothing."""
    setup = Setup.model_validate({"memory_reserve": 0.0, **wanted.pop("setup", {})})
    documents = {"graph": blocks(6), "setup": setup, **wanted}
    alone = documents | {"pipeline": NO_PIPELINE, "setup": setup.model_copy(update={"copies": 1})}
    roomy = toy_request(topology=topology(devices, **SLOW_LINK), **alone)
    limit = round(share * planned(roomy).cost.memory_bytes.total)
    return toy_request(
        topology=topology(devices, memory_bytes=limit, **SLOW_LINK),
        recompute=Recompute(policy="auto"),
        **documents,
    )


def turns() -> Request:
    """Tensor parallelism over a link on which the step waits for activations."""
    return toy_request(
        graph=transformer_mlp(64, rows=64, width=512).graph("loss:out", loss="loss:out"),
        topology=topology(4, **SLOW_LINK),
        setup=Setup(microbatches=4, copies="auto"),
        degrees=Degrees(tp=4),
        pipeline=Pipeline(ranks=1),
    )


CASES: dict[str, Callable[[], Request]] = {
    "pipelines of two ranks": pipelines,
    "pipelines of a schedule": partial(pipelines, None, schedule="interleaved_1f1b"),
    "pipelines that lose to a single stage": partial(pipelines, None, ranks=None),
    "policies": partial(policies, 4, 0.9, setup={"microbatches": 1}),
    "policies and microbatches": partial(policies, 4, 0.25),
    "turns": turns,
    "turns and policies": partial(
        policies, 4, 0.9, degrees=Degrees(tp=4), setup={"microbatches": 2, "copies": "auto"}
    ),
    "policies without a pipeline": partial(
        policies, 1, 0.9, pipeline=ANY_RANKS, setup={"microbatches": 1}
    ),
}


@cache
def searched(case: str) -> tuple[Request, Plan]:
    request = CASES[case]()
    return request, planned(request)


def patched(request: Request, own: Considered) -> Request:
    return Request.from_dict(merged(request.to_dict(), own.request_patch))


def merged(value: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    made = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), part)
    return made


@pytest.mark.parametrize("case", CASES)
def test_every_configuration_is_asked_for_with_its_patch(case: str) -> None:
    request, plan = searched(case)
    assert plan.search.considered
    patches = [own.request_patch for own in plan.search.considered]
    assert None not in patches
    assert len({str(patch) for patch in patches}) == len(patches)
    for own in plan.search.considered:
        assert patched(request, own).graph == request.graph
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("case", CASES)
def test_the_patched_request_plans_the_configuration(case: str) -> None:
    request, plan = searched(case)
    for own in plan.search.considered[:4]:
        asked = patched(request, own)
        found = answer_to(asked).plan
        if found is None:
            assert own.cost_ns is None
            continue
        assert own.configuration in described(asked, found)
        assert found.wishes == asked.wishes
        if "pipeline ranks" not in own.configuration:  # of those only the best is planned in full
            assert found.cost.step_ns == own.cost_ns


def described(request: Request, plan: Plan) -> set[str]:
    """How a search names the configuration of a plan."""
    names = {f"copies {request.setup.copies}"}
    policy = plan.wishes.recompute.policy
    names.add(f"recompute {policy}, {plan.microbatches} microbatches")
    own = plan.schedule
    if own is not None:
        made = Configuration(own.ranks, own.kind, own.stages_per_rank, plan.microbatches)
        names.add(str(made))
    return names


def test_a_patch_states_all_that_was_left_to_the_search() -> None:
    """Whether microbatches take turns, and the policy; one stage, and the policy."""
    _, plan = searched("turns and policies")
    *policies, turns = [own.request_patch for own in plan.search.considered]
    assert turns == {"setup": {"copies": 2}}
    assert policies == [
        {"recompute": {"policy": "cheap"}, "setup": {"microbatches": 2, "copies": 1}}
    ]
    _, plan = searched("policies without a pipeline")
    for own in plan.search.considered:
        assert own.request_patch is not None
        assert own.request_patch["pipeline"] == {"ranks": 1, "schedule": None}


def test_where_ranks_lie_cannot_be_asked_for() -> None:
    devices = beside(
        kind("slow", 2, flops_per_s=1e12, latency_ns=200),
        kind("fast", 2, flops_per_s=2e12, latency_ns=200),
    )
    request = toy_request(
        graph=layered(4, batch=64, width=256), topology=devices, setup=Setup(microbatches=4),
        pipeline=Pipeline(ranks=None),
    )  # fmt: skip
    placed = [own for own in planned(request).search.considered if "pipeline" in own.configuration]
    assert placed
    assert {own.request_patch for own in placed} == {None}


@pytest.mark.parametrize("sizes", [(4, 8), (2, 2, 4)])
def test_a_plan_of_one_stage_lists_the_other_meshes(sizes: tuple[int, ...]) -> None:
    """Each with its step and memory, or with the bound for which it was not searched to its end."""
    request = toy_request(
        graph=transformer_mlp(32, rows=32, width=256).graph("loss:out", loss="loss:out"),
        topology=topology(*sizes),
        recompute=Recompute(policy="auto"),
        setup=Setup(),
    )
    plan = planned(request)
    considered = plan.search.considered
    assert len(considered) <= 20
    own = " × ".join(f"{axis.name} {axis.size}" for axis in plan.stages[0].mesh.axes)
    listed = [
        each.configuration.removeprefix("mesh ").split(", ")[0]
        for each in considered
        if each.configuration.startswith("mesh ")
    ]
    assert set(plan.search.meshes) - {own} <= set(listed)
    assert own not in listed
    assert len(set(listed)) == len(listed)
    for each in considered:
        if each.cost_ns is not None:
            assert each.memory_bytes is not None
            assert each.why == f"takes {each.cost_ns / plan.cost.step_ns:.3f} times"
    documents = request.graph, request.topology, request.setup
    assert verify_documents(plan, *documents).outcome == "verified"
    raised = considered[0].model_copy(update={"why": "takes 9.000 times", "cost_ns": 1.0})
    search = plan.search.model_copy(update={"considered": (raised, *considered[1:])})
    with pytest.raises(PlanError, match="considered"):
        verify_documents(plan.model_copy(update={"search": search}), *documents)
