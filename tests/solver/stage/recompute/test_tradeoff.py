"""Recompute op by op: cuts at a price, rungs, descents and plans against all there are."""

from __future__ import annotations

from itertools import pairwise, product
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Pipeline, Recompute, Setup
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.problem.values import find_values
from meshwright_solver.stage.recompute.min_cut import ops_at_price, saved_bytes
from meshwright_solver.stage.recompute.tradeoff import Ladder, Rung, descend, ladder
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import toy_request
from tests.solver.small_graphs import problem, topology
from tests.solver.stage.recompute.layers import layered
from tests.solver.stage.recompute.random_blocks import block_of
from tests.solver.stage.recompute.test_recompute import GIB, planned


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_at_a_price_the_cut_is_the_best_of_all_sets(data: st.DataObject) -> None:
    ops, values = block_of(data)
    times = {op: float(data.draw(st.integers(1, 90))) for op in ops if data.draw(st.booleans())}
    price = data.draw(st.integers(0, 12)) / 2

    def cost(again: set[int]) -> float:
        return price * saved_bytes(values, again) + sum(times[op] for op in again)

    found = ops_at_price(values, times, price)
    assert found <= set(times)
    sets = [
        {op for op, on in zip(times, chosen, strict=True) if on}
        for chosen in product((False, True), repeat=len(times))
    ]
    assert cost(found) == pytest.approx(min(map(cost, sets)), rel=1e-9)


def rungs(layers: int = 4, **more: object) -> tuple[Problem, Ladder]:
    whole = problem(layered(layers, **more), topology(2), Setup(microbatches=1))
    return whole, ladder(whole, find_values(whole))


def test_rungs_are_corners_of_a_convex_hull_from_nothing_to_all() -> None:
    whole, steps = rungs()
    found = steps.rungs
    assert not found[0].remade
    assert len(found) > 3
    slopes = []
    for light, heavy in pairwise(found):
        assert heavy.saved_bytes < light.saved_bytes
        assert heavy.ns > light.ns
        slopes.append((heavy.ns - light.ns) / (light.saved_bytes - heavy.saved_bytes))
    assert slopes == sorted(slopes)
    full = {"norm", "query", "scores", "softmax", "context", "add", "up", "gelu"}
    assert {op.split(".")[1] for op in found[-1].remade.again} == full
    assert not ladder(whole, find_values(whole), 0).rungs[0].remade


def test_between_two_rungs_the_first_blocks_have_the_heavier() -> None:
    _, steps = rungs()
    light, heavy = (steps.rungs[k].remade.again for k in (1, 2))
    found = steps.between(2, 3).again
    for layer in range(4):
        own = {op for op in found if op.startswith(f"{layer}.")}
        same = heavy if layer < 3 else light
        assert own == {op for op in same if op.startswith(f"{layer}.")}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 6))
def test_a_descent_finds_the_least_of_what_falls_and_then_rises(
    numbers: list[int], missing: int
) -> None:
    low = len(numbers) // 2
    curve = sorted(set(numbers[:low]), reverse=True) + sorted(set(numbers[low:]))
    assume(all(a != b for a, b in pairwise(curve)))
    steps: list[float] = [inf] * missing + [float(own) for own in curve]
    made = [RecomputedOps("ops", frozenset([str(k)]), {}) for k in range(len(steps))]
    whole = problem(layered(1), topology(1), Setup(microbatches=1))
    own = Ladder(whole, find_values(whole), (), tuple(Rung(0.0, r, 0, 0.0) for r in made))
    asked: list[float] = []

    def step_ns(again: RecomputedOps) -> float:
        (number,) = again.again
        asked.append(steps[int(number)])
        return asked[-1]

    descend(own, step_ns, lambda: True)
    assert min(asked) == min(steps)
    assert len(asked) <= 2 * len(steps).bit_length()


def test_a_descent_ends_with_its_time() -> None:
    _, steps = rungs()
    asked: list[RecomputedOps] = []

    def step_ns(again: RecomputedOps) -> float:
        asked.append(again)
        return 1.0

    descend(steps, step_ns, lambda: len(asked) < 1)
    assert len(asked) == 1


# --- plans ---------------------------------------------------------------------------------------

LARGE = {"global_batch": 1024}  # activations, not parameters, take the memory


def test_roomy_plans_do_nothing_again() -> None:
    found = planned(layered(8), "ops")
    assert found.stages[0].recompute is None


@pytest.mark.rotating
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
def test_where_memory_is_short_no_other_policy_has_a_shorter_step(share: float) -> None:
    graph = layered(12)
    most, least = (planned(graph, p, **LARGE).cost.memory_bytes.total for p in ("none", "full"))
    limit = round(least + share * (most - least))
    found = planned(graph, "ops", limit, **LARGE)
    assert found.cost.memory_bytes.total <= limit
    again = found.stages[0].recompute
    assert again is not None
    assert again.policy == "ops"
    best = planned(graph, "auto", limit, **LARGE)
    assert found.cost.step_ns < 0.96 * best.cost.step_ns
    tried = [own for own in found.search.considered if own.configuration.startswith("recompute o")]
    assert tried
    assert all(own.cost_ns is None or own.cost_ns >= found.cost.step_ns for own in tried)
    devices = topology(2, 2, memory_bytes=limit)
    setup = Setup(microbatches=1, memory_reserve=0.0, **LARGE)
    whole = problem(graph, devices, setup)
    assert evaluate(whole, found).step_ns == pytest.approx(found.cost.step_ns, rel=1e-9)
    assert verify_documents(found, graph, devices, setup).outcome == "verified"


def test_where_another_sharding_is_cheaper_nothing_is_done_again() -> None:
    """In a tenth less than what takes most, with what little it moves more."""
    graph = layered(12)
    most, least = (planned(graph, p, **LARGE).cost.memory_bytes.total for p in ("none", "full"))
    found = planned(graph, "ops", round(least + 0.9 * (most - least)), **LARGE)
    assert found.stages[0].recompute is None
    tried = [own.cost_ns for own in found.search.considered if own.cost_ns is not None]
    assert tried
    assert min(tried) >= found.cost.step_ns


def test_stages_of_a_pipeline_do_so_too() -> None:
    graph = layered(8)
    request = toy_request(
        graph=graph,
        topology=topology(2, 2, memory_bytes=GIB),
        setup=Setup(microbatches=4, memory_reserve=0.0, **LARGE),
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
    )
    full = plan(request.model_copy(update={"recompute": Recompute(policy="full")})).plan
    assert full is not None
    room = round(1.1 * full.cost.memory_bytes.total)
    tight = request.model_copy(
        update={
            "recompute": Recompute(policy="ops"),
            "topology": topology(2, 2, memory_bytes=room),
        }
    )
    found = plan(tight).plan
    assert found is not None
    assert any(stage.recompute is not None for stage in found.stages)
    assert found.cost.memory_bytes.total <= room
    certificate = verify_documents(found, graph, tight.topology, tight.setup)
    assert certificate.outcome == "verified"
