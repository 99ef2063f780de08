"""Simplicity: never dearer than the tolerance, never fussier, and counted as people would count."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Budget as Limits
from meshwright.schema import Graph, Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.fold import fold
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.cost_graph import CostEdge, evaluate_choice
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.stage.simplify import Count, Simpler, _Counter, simpler
from meshwright_solver.strategies.mesh_models import Models
from tests.one_stage import one_stage_request
from tests.solver.stage.heuristics.test_recursive_programming import stored


def unfolded(graph: Graph, cluster: str, share: float = 1.0) -> Unfolding:
    """The cost graph of the first mesh; the limit is that share of a device."""
    devices = preset(cluster)
    folding = fold(graph, {})
    problem = build_problem(folding.graph, devices, Setup(), default_calibration(), 1)
    models = Models(problem, find_values(problem), meshes(devices, 2)[0])
    return Unfolding(folding, lower(models, {}, devices.device.memory_bytes * share))


@pytest.mark.parametrize(
    ("name", "cluster", "share"),
    [
        ("llama3-8b", "h100-8x8", 0.9),
        ("llama3-8b", "h100-8x8", 0.73),
        ("wide-deep", "h100-3x4", 0.9),
    ],
)
@pytest.mark.parametrize("tolerance", [0.002, 0.02])
def test_a_simpler_choice_is_within_the_tolerance_and_the_limit(
    name: str, cluster: str, share: float, tolerance: float
) -> None:
    unfolding = unfolded(stored(name), cluster, share)
    best = dynamic_programming(unfolding.graph, SearchBudget(tolerance=1e-3))
    assert best.choice is not None
    found = simpler(unfolding, best.choice, tolerance, SearchBudget())
    if found is None:
        return
    assert found.after.total < found.before.total
    real = evaluate_choice(unfolding.graph, found.choice)
    assert real.cost_ns == found.cost_ns <= best.cost_ns * (1 + tolerance)
    limit = unfolding.graph.memory_limit_bytes
    assert limit is not None
    assert real.memory_bytes <= limit


def test_odd_layers_and_re_layouts_are_counted() -> None:
    unfolding = unfolded(stored("llama3-8b"), "h100-8x8")
    counter = _Counter(unfolding)
    best = dynamic_programming(unfolding.graph, SearchBudget(tolerance=1e-3)).choice
    assert best is not None
    before = counter.count(best)
    (first, *_) = [nodes for nodes in counter.repeats if len(nodes) > 3]
    odd = best.copy()
    odd[first[1]] = (odd[first[1]] + 1) % unfolding.graph.nodes[first[1]].cost.size
    assert counter.count(odd).odd_repeats == before.odd_repeats + 1
    moved = sum(
        float(edge.cost[best[edge.tail], best[edge.head]]) > 0
        for edge in unfolding.graph.edges
        if isinstance(edge, CostEdge) and id(edge.cost) in unfolding.activation_tables()
    )
    assert before.relayouts == moved


def test_priced_cost_is_cost_and_count_times_price() -> None:
    unfolding = unfolded(stored("bert-large"), "h100-8x8")
    counter = _Counter(unfolding)
    best = dynamic_programming(unfolding.graph, SearchBudget(tolerance=1e-3)).choice
    assert best is not None
    priced = counter.priced(best, 1000.0)
    random = np.random.default_rng(0)
    for nodes in counter.repeats[::5]:
        choice = best.copy()
        choice[nodes[0]] = random.integers(unfolding.graph.nodes[nodes[0]].cost.size)
        plain, dearer = (evaluate_choice(g, choice).cost_ns for g in (unfolding.graph, priced))
        if not np.isfinite(plain):
            continue
        assert dearer == pytest.approx(plain + 1000.0 * counter.count(choice).total)


def test_a_plan_says_what_simplicity_cost_and_none_where_it_is_not_wanted() -> None:
    request = one_stage_request(graph=stored("llama3-8b"), topology=preset("h100-8x8"))
    fussy = plan(request.model_copy(update={"budget": Limits(simplicity=0)})).plan
    simple = plan(request).plan
    assert fussy is not None
    assert simple is not None
    assert fussy.search.simplicity_ns == 0
    cheapest_ns = [
        found.search.cost_ns - found.search.faster_ns - found.search.simplicity_ns
        for found in (fussy, simple)
    ]
    assert cheapest_ns[1] == pytest.approx(cheapest_ns[0], abs=1.0)
    assert simple.search.cost_ns <= 1.005 * fussy.search.cost_ns
    assert len(simple.stages[0].redistributions) <= len(fussy.stages[0].redistributions)
    assert simple.search.outcome == fussy.search.outcome
    assert simple.cost.step_ns <= 1.005 * fussy.cost.step_ns
    (note,) = [own for own in simple.notes if own.startswith("simpler")]
    longer_ms = round((simple.cost.step_ns - fussy.cost.step_ns) / 1e6, 3)
    assert (f"takes {longer_ms:.3f} ms less a step" if longer_ms > 0 else "takes") in note


def test_what_became_simpler_is_said_and_nothing_else() -> None:
    found = Simpler(np.zeros(0, dtype=np.int64), 1.0, 0.0, Count(3, 2), Count(1, 2))
    assert found.gained == "1 re-layout instead of 3"
    fewer = Simpler(np.zeros(0, dtype=np.int64), 1.0, 0.0, Count(1, 4), Count(2, 0))
    assert fewer.gained == (
        "2 re-layouts instead of 1, 0 ops of repeated layers unlike most instead of 4"
    )
