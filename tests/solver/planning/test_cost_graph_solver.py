from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from meshwright.common.files import read_document
from meshwright.schema import RequestError
from meshwright.schema.cost_graph import CostGraphEngine, CostGraphFile, CostGraphProgress
from meshwright_solver.planning.cost_graph_solver import solve_cost_graph
from meshwright_solver.search.documents.solution_score import score_solution
from tests.solver.cost_graph_files import (
    CONTEST_EXAMPLE,
    TWO_NODES,
    file_of,
    least_cost,
    random_problem,
)

ROOT = Path(__file__).parents[3]
LAYERS = ROOT / "examples" / "cost-graphs" / "layers-12.json"
LAYERS_COST = 4773.0  # proved by exact
ANY_GRAPH: tuple[CostGraphEngine, ...] = ("auto", "lagrangian", "exact")


@pytest.mark.parametrize("engine", ANY_GRAPH)
def test_the_example_of_the_contest(engine: CostGraphEngine) -> None:
    solution = solve_cost_graph(file_of(CONTEST_EXAMPLE), engine=engine)
    assert (solution.status, solution.cost, solution.gap) == ("optimal", 445.0, 0.0)
    assert solution.choice == (0, 0, 2, 1, 0)
    assert (solution.peak_usage, solution.peak_time, solution.usage_limit) == (50.0, 50, 50.0)


@pytest.mark.parametrize(
    ("limit", "cost", "choice"), [(11, 15.0, (1, 0)), (10, 22.0, (1, 1)), (7, 26.0, (0, 1))]
)
def test_the_limit_decides(limit: int, cost: float, choice: tuple[int, ...]) -> None:
    solution = solve_cost_graph(file_of(TWO_NODES, usage_limit=limit))
    assert (solution.cost, solution.choice) == (cost, choice)


@pytest.mark.parametrize("engine", ["elimination", "message_passing", *ANY_GRAPH])
def test_without_a_limit_every_engine_answers(engine: CostGraphEngine) -> None:
    # without a limit node 2 takes strategy 1, 75 in place of 105
    solution = solve_cost_graph(file_of(CONTEST_EXAMPLE, usage_limit=None), engine=engine)
    assert (solution.cost, solution.choice) == (415.0, (0, 0, 1, 1, 0))
    assert solution.engines == (("elimination",) if engine == "auto" else (engine,))


@pytest.mark.parametrize("engine", ["elimination", "message_passing"])
def test_engines_without_lifetimes_say_which_have_them(engine: CostGraphEngine) -> None:
    with pytest.raises(RequestError, match="Use an engine that knows lifetimes"):
        solve_cost_graph(file_of(CONTEST_EXAMPLE), engine=engine)


@pytest.mark.parametrize("engine", ANY_GRAPH)
def test_infeasible_is_a_solution(engine: CostGraphEngine) -> None:
    solution = solve_cost_graph(file_of(TWO_NODES, usage_limit=2), engine=engine)
    assert (solution.status, solution.choice, solution.cost) == ("infeasible", None, None)
    assert solution.notes == ("every choice takes more memory than the limit",) or (
        "too much memory" in solution.notes[0]
    )


@pytest.mark.parametrize("batch", range(4))
def test_auto_equals_brute_force(batch: int) -> None:
    for seed in range(25 * batch, 25 * batch + 25):
        problem = random_problem(seed)
        truth = least_cost(problem)
        solution = solve_cost_graph(file_of(problem))
        if truth == math.inf:
            assert solution.status == "infeasible", seed
            continue
        assert solution.status == "optimal", seed
        assert solution.cost == pytest.approx(truth, rel=1e-9)
        assert solution.choice is not None
        score = score_solution(file_of(problem).problem, solution.choice)
        assert score.cost == solution.cost
        assert score.is_within


@pytest.mark.parametrize("limit", [0, None])
def test_no_nodes_cost_nothing(limit: int | None) -> None:
    empty = {"nodes": {"intervals": [], "costs": [], "usages": []}, "usage_limit": limit}
    solution = solve_cost_graph(file_of(empty))
    assert (solution.status, solution.choice, solution.cost) == ("optimal", (), 0.0)
    assert (solution.peak_usage, solution.peak_time) == (0.0, None)


def test_exact_goes_on_where_lagrangian_leaves_a_gap() -> None:
    told: list[CostGraphProgress] = []
    file = read_document(LAYERS, CostGraphFile)
    solution = solve_cost_graph(file, seconds=40, report=told.append)
    assert (solution.status, solution.cost, solution.gap) == ("optimal", LAYERS_COST, 0.0)
    assert solution.engines == ("lagrangian", "exact")
    bounds = [step.lower_bound for step in told if step.lower_bound is not None]
    assert bounds == sorted(bounds), "a bound is never taken back"
    costs = [step.cost for step in told if step.cost is not None]
    assert costs == sorted(costs, reverse=True)


def test_a_stop_gives_the_best_choice_so_far() -> None:
    found: list[float] = []

    def report(step: CostGraphProgress) -> None:
        if step.cost is not None:
            found.append(step.cost)

    file = read_document(LAYERS, CostGraphFile)
    solution = solve_cost_graph(file, report=report, stop=lambda: bool(found))
    assert solution.status == "feasible"
    assert solution.cost == min(found)
    assert "stopped on request" in solution.notes


def test_equal_seeds_give_equal_solutions() -> None:
    file = read_document(LAYERS, CostGraphFile)
    first, second = (solve_cost_graph(file, engine="lagrangian", seed=3) for _ in range(2))
    assert first == second
    assert first.seed == 3


def test_the_planner_does_not_load_the_lagrangian_engine() -> None:
    code = (
        "import sys, meshwright_solver.planning.planner\n"
        "print([name for name in sys.modules if '.lagrangian' in name])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout == "[]\n"
