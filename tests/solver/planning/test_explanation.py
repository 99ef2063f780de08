"""Explanations: an alternative is what the planner finds when it is pinned; what costs is said."""

from __future__ import annotations

import pytest

from meshwright.schema import Pin, Pipeline, Plan, PlanError, Request, RequestError, Setup, Wishes
from meshwright.schema.explanation import Alternative, Explanation
from meshwright_solver.planning.explanation.explain import explain_documents
from tests.solver.layered import layered
from tests.solver.requests import mlp_request, planned, refused, toy_request
from tests.solver.small_graphs import topology

PLAIN = Wishes().budget.model_copy(update={"simplicity": 0.0})


def explained(request: Request, plan: Plan, glob: str, seconds: float = 60.0) -> Explanation:
    return explain_documents(
        plan, request.graph, request.topology, request.setup, request.calibration,
        glob=glob, seconds=seconds,
    )  # fmt: skip


def one_axis(**wishes: object) -> Request:
    """Four devices, one mesh of one axis: what the planner finds is on the plan's own mesh."""
    budget = PLAIN.model_copy(update={"max_axes": 1})
    request = mlp_request(8, topology(4), width=256)
    return request.model_copy(update={"budget": budget, **wishes})


def pinned(request: Request, own: Alternative, op: str) -> Request:
    pin = Pin(op=op, strategy={f: axes for f, axes in own.strategy.items() if axes})
    return request.model_copy(update={"pins": (*request.pins, pin)})


def test_every_alternative_is_what_the_planner_finds_when_it_is_pinned() -> None:
    request = one_axis()
    made = explained(request, planned(request), "up")
    (group,) = made.groups
    chosen, *others = group.alternatives
    # b, the rows, the width in and out, nothing
    assert (len(others), made.complete) == (4, True)
    assert chosen.verdict == "chosen"
    assert chosen.whole == made.whole
    for own in others:
        found = planned(pinned(request, own, "up"))
        assert own.whole is not None
        # the planner also looks for a shorter step by other sums than the objective
        assert found.cost.step_ns <= own.whole.step_ns * (1 + 1e-9)
        if found.search.faster_ns == 0:
            assert own.whole.objective_ns == pytest.approx(found.cost.objective_ns, rel=1e-9)
            assert own.whole.step_ns == pytest.approx(found.cost.step_ns, rel=1e-9)
            assert own.whole.memory_bytes == found.cost.memory_bytes.total
        assert own.least_ns == pytest.approx(own.whole.objective_ns)
        assert own.verdict == "slower"
        assert "more" in own.why
        strategies = {op.op: (op.strategy, op.partial) for op in planned(request).stages[0].ops}
        changed = [op.op for op in found.stages[0].ops
                   if (op.strategy, op.partial) != strategies[op.op]]  # fmt: skip
        assert own.others == len(changed) - 1


def test_the_whole_is_the_plans_own_cost() -> None:
    request = one_axis()
    plan = planned(request)
    made = explained(request, plan, "up")
    assert made.plan == plan.id
    assert made.whole.step_ns == pytest.approx(plan.cost.step_ns)
    assert made.whole.objective_ns == pytest.approx(plan.cost.objective_ns)
    assert made.whole.memory_bytes == plan.cost.memory_bytes.total


def test_the_op_alone_takes_what_the_plan_says_of_it() -> None:
    request = one_axis()
    plan = planned(request)
    for own in plan.stages[0].ops:
        chosen = explained(request, plan, own.op).groups[0].alternatives[0]
        assert chosen.strategy == own.strategy
        assert chosen.compute_ns == pytest.approx(own.compute_ns)
        assert chosen.communication_ns == pytest.approx(own.communication_ns)


def test_a_pin_is_named_and_priced() -> None:
    free = planned(one_axis())
    request = one_axis(pins=(Pin(op="up", strategy={}),))
    plan = planned(request)
    (group,) = explained(request, plan, "up").groups
    (price,) = group.pins
    assert price.pin == "up:"
    assert price.whole is not None
    assert price.whole.objective_ns == pytest.approx(free.cost.objective_ns)
    assert "costs" in price.why
    left_out = [own for own in group.alternatives if own.verdict == "not allowed"]
    assert len(left_out) == len(group.alternatives) - 1
    assert all("pin up:" in own.why and own.whole is None for own in left_out)


def test_what_does_not_fit_says_so_and_the_limit_has_a_price() -> None:
    roomy = planned(one_axis())
    short = roomy.cost.memory_bytes.total - roomy.cost.memory_bytes.reserved
    request = one_axis()
    memory = next(
        bytes_
        for share in (0.9, 0.8, 0.7, 0.6, 0.5)
        if (bytes_ := int(share * short / (1 - Setup().memory_reserve)))
        and planned(_with_memory(request, bytes_)).cost.objective_ns
        > 1.02 * roomy.cost.objective_ns
    )
    request = _with_memory(request, memory)
    made = explained(request, planned(request), "up")
    assert made.memory.binds
    assert made.memory.without_ns == pytest.approx(roomy.cost.objective_ns, rel=1e-3)
    assert made.memory.capacity_bytes == memory
    for own in made.groups[0].alternatives:
        if own.verdict == "does not fit":
            assert "GiB" in own.why
            assert refused(pinned(request, own, "up")).constraint == "memory"


def test_without_time_all_are_listed_and_none_is_guessed() -> None:
    request = one_axis()
    plan = planned(request)
    made = explained(request, plan, "up", seconds=1e-9)
    assert not made.complete
    assert made.memory.without_ns is None
    chosen, *others = made.groups[0].alternatives
    assert chosen.verdict == "chosen"
    assert {own.verdict for own in others} == {"not solved"}
    assert all(own.whole is None and own.compute_ns > 0 for own in others)


def test_repeated_layers_are_one_group_of_one_choice() -> None:
    request = toy_request(layered(9), topology(2, 2))
    plan = planned(request)
    made = explained(request, plan, "*.linear", seconds=120)
    assert sum(len(group.ops) for group in made.groups) == 9
    group = max(made.groups, key=lambda own: len(own.ops))
    assert group.label.endswith(f"×{len(group.ops)}")
    own = next(own for own in group.alternatives if own.verdict == "slower")
    assert own.whole is not None
    assert own.whole.objective_ns > made.whole.objective_ns


def test_a_stage_of_a_pipeline_is_a_problem_of_its_own() -> None:
    request = toy_request(
        layered(4), topology(2, 2), setup=Setup(microbatches=4), pipeline=Pipeline(ranks=2)
    )
    plan = planned(request)
    made = explained(request, plan, "3.linear")
    own = next(n for n, s in enumerate(plan.stages) if any(op.op == "3.linear" for op in s.ops))
    assert (made.stage, made.complete) == (own, True)
    assert any("stage alone" in note for note in made.notes)
    use = plan.stages[own].memory_bytes
    assert use is not None
    assert made.whole.memory_bytes == pytest.approx(use.total, rel=1e-5)
    assert made.memory.used_bytes > use.total  # another stage lies on the same rank
    assert {own.verdict for own in made.groups[0].alternatives} >= {"chosen", "slower"}
    with pytest.raises(RequestError, match="ops of the stages"):
        explained(request, plan, "*.linear")


@pytest.mark.parametrize("glob", ["nowhere", "u[p"])
def test_a_glob_that_means_no_op_is_refused(glob: str) -> None:
    request = one_axis()
    with pytest.raises(RequestError, match="matches no op of the plan"):
        explained(request, planned(request), glob)


def test_too_many_kinds_are_refused() -> None:
    request = one_axis()
    with pytest.raises(RequestError, match="kinds of ops"):
        explained(request, planned(request), "*")


def test_a_plan_of_another_graph_is_refused() -> None:
    request, other = one_axis(), mlp_request(16, topology(4), width=256)
    with pytest.raises(PlanError):
        explained(other, planned(request), "up")


def _with_memory(request: Request, memory_bytes: int) -> Request:
    device = request.topology.device.model_copy(update={"memory_bytes": memory_bytes})
    return request.model_copy(
        update={"topology": request.topology.model_copy(update={"device": device})}
    )
