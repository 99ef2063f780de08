"""Plans that recompute: folded as whole, executed, in the memory there is."""

from __future__ import annotations

import pytest

from meshwright.schema import Answer, Graph, Plan, Recompute, Request, Setup
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.folding import folding_cache
from meshwright_solver.folding.fold import Folding
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology
from tests.solver.stage.recompute.layers import layered

GIB = 1 << 30


def answered(graph: Graph, policy: str, memory_bytes: int = GIB, **setup: object) -> Answer:
    said = {"microbatches": 1, "memory_reserve": 0.0, **setup}
    return plan(
        toy_request(
            graph=graph,
            topology=topology(2, 2, memory_bytes=memory_bytes),
            setup=Setup.model_validate(said),
            recompute=Recompute.model_validate({"policy": policy}),
        )
    )


def planned(graph: Graph, policy: str, memory_bytes: int = GIB, **setup: object) -> Plan:
    found = answered(graph, policy, memory_bytes, **setup).plan
    assert found is not None
    return found


def judged(graph: Graph, found: Plan, memory_bytes: int = GIB) -> None:
    setup = Setup(microbatches=1, memory_reserve=0.0)
    devices = topology(2, 2, memory_bytes=memory_bytes)
    whole = problem(graph, devices, setup)
    cost = evaluate(whole, Plan.from_json(found.to_json()))
    assert cost.step_ns == pytest.approx(found.cost.step_ns, rel=1e-9)
    said, memory = found.cost.memory_bytes, cost.memory_bytes
    assert memory.recomputed == pytest.approx(said.recomputed, abs=2)
    assert memory.total == pytest.approx(said.total, abs=8)


@pytest.mark.parametrize("policy", ["selective", "cheap", "full"])
@pytest.mark.parametrize("layers", [3, 12])
def test_the_judge_agrees_and_folded_plans_are_those_of_the_whole(
    policy: str, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = layered(layers)
    found = planned(graph, policy)
    judged(graph, found)
    again = found.stages[0].recompute
    assert again is not None
    assert len(again.segments) == layers
    with monkeypatch.context() as patched:
        patched.setattr(folding_cache, "foldings", lambda graph, _: iter([Folding.none(graph)]))
        whole = planned(graph, policy)
    assert whole.cost.step_ns == pytest.approx(found.cost.step_ns, rel=2e-3)
    assert whole.stages[0].recompute == again


def test_recomputing_costs_the_forward_pass_and_frees_memory() -> None:
    graph = layered(12)
    plain, full = planned(graph, "none"), planned(graph, "full")
    assert plain.stages[0].recompute is None
    ratio = full.cost.compute_ns / plain.cost.compute_ns
    assert 1.0 < ratio < 1.5
    assert full.cost.memory_bytes.activations < 0.5 * plain.cost.memory_bytes.activations
    assert full.cost.memory_bytes.recomputed > 0
    assert plain.cost.memory_bytes.recomputed == 0


def test_auto_recomputes_only_where_memory_is_short() -> None:
    graph = layered(12)
    roomy = planned(graph, "auto")
    assert roomy.stages[0].recompute is None
    assert roomy.search.considered == ()
    full = planned(graph, "full")
    tight = full.cost.memory_bytes.total
    found = planned(graph, "auto", tight)
    assert found.cost.memory_bytes.total <= tight
    assert any("recompute" in own.configuration for own in found.search.considered)
    alone = answered(graph, "none", tight).plan
    assert alone is None or found.cost.step_ns <= alone.cost.step_ns


def test_auto_gives_every_policy_the_microbatches_that_it_needs() -> None:
    """Here `none` fits at two microbatches for the first time; at one, `cheap` does."""
    found = planned(layered(3), "auto", 470_000, microbatches=None)
    steps = {own.configuration: own.cost_ns for own in found.search.considered}
    others = {
        f"recompute {policy}, {count} microbatches" for policy, count in (("cheap", 1), ("none", 2))
    }
    assert len(others & steps.keys()) >= 1  # one of them may be the plan
    assert found.cost.step_ns <= min(ns for ns in steps.values() if ns is not None)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.95])
def test_segments_of_different_size_keep_the_memory(share: float) -> None:
    """The search knows the mean of segments, the limit holds for the largest."""
    graph = layered(6, wide=frozenset({3}))
    limit = round(share * planned(graph, "full").cost.memory_bytes.total)
    answer = answered(graph, "full", limit)
    if answer.plan is not None:
        assert answer.plan.cost.memory_bytes.total <= limit
        judged(graph, answer.plan, limit)
    else:
        assert answer.infeasible is not None
        assert answer.infeasible.constraint == "memory"


@pytest.mark.parametrize("policy", ["cheap", "full"])
def test_plans_that_recompute_execute_as_the_model(policy: str) -> None:
    graph = layered(8)
    found = planned(graph, policy)
    devices = topology(2, 2, memory_bytes=GIB)
    setup = Setup(microbatches=1, memory_reserve=0.0)
    assert verify_documents(found, graph, devices, setup).outcome == "verified"


def test_whole_blocks_cost_a_product_more_and_execute_as_the_model() -> None:
    graph, devices = layered(8), topology(2, 2, memory_bytes=GIB)
    costs = {}
    for stack in (None, "megatron-core"):
        setup = Setup(microbatches=1, memory_reserve=0.0, stack=stack)
        request = Request(
            graph=graph, topology=devices, setup=setup, recompute=Recompute(policy="full"),
            calibration=datasheet_calibration(),
        )  # fmt: skip
        found = plan(request).plan
        assert found is not None
        certificate = verify_documents(
            found, graph, devices, setup, calibration=datasheet_calibration()
        )
        assert certificate.outcome == "verified"
        costs[stack] = found.cost
    assert costs["megatron-core"].compute_ns > costs[None].compute_ns
    held = costs["megatron-core"].memory_bytes.activations
    assert held == costs[None].memory_bytes.activations


def test_who_asks_for_what_cannot_be_is_told() -> None:
    make = GraphMaker(batch=16)
    x = make.op("linear", [make.input("x", "batch", 64), make.parameter("w", 64, 64)],
                ["batch", 64], "only")  # fmt: skip
    loss = make.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    alone = make.graph(loss, loss=loss)
    assert any("recompute full: nothing" in note for note in planned(alone, "full").notes)
    assert not any("recompute" in note for note in planned(alone, "auto").notes)
    assert not any("recompute" in note for note in planned(layered(3), "full").notes)
    inference = planned(layered(3), "cheap", phase="inference")
    assert "recompute cheap: inference has no backward pass" in inference.notes


@pytest.mark.parametrize(("share", "policy"), [(0.15, "full"), (0.5, "cheap")])
def test_blocks_that_need_not_recompute_do_not(share: float, policy: str) -> None:
    """In memory between what full recomputation and none take, beside every number of blocks."""
    graph, large = layered(16), {"global_batch": 1024}
    least, most = (planned(graph, p, **large).cost.memory_bytes.total for p in ("full", "none"))
    limit = round(least + share * (most - least))
    found = planned(graph, "auto", limit, **large)
    again = found.stages[0].recompute
    assert again is not None
    assert again.policy == policy
    assert len(again.segments) < 16
    devices = topology(2, 2, memory_bytes=limit)
    setup = Setup(microbatches=1, memory_reserve=0.0, **large)
    stated = [
        toy_request(
            graph=graph, topology=devices, setup=setup,
            recompute=Recompute.model_validate({"policy": own, "blocks": blocks}),
        )
        for own in ("cheap", "full")
        for blocks in range(1, 17)
    ]  # fmt: skip
    steps = [answer.plan.cost.step_ns for own in stated if (answer := plan(own)).plan is not None]
    assert found.cost.step_ns <= 1.001 * min(steps)
    tried = [own for own in found.search.considered if " in 15 blocks" in own.configuration]
    assert [own.request_patch for own in tried] == [
        {"recompute": {"policy": policy, "blocks": 15}, "setup": {"microbatches": 1}}
    ]
    assert verify_documents(found, graph, devices, setup).outcome == "verified"
