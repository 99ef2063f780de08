"""Solve the cost graph of a file: the entry point `meshwright.cost_graph_solver`.

    CostGraphFile -> CostGraph -> an engine -> a choice -> its score from the file -> the solution

The engine decides the choice and proves the bound. The numbers of the choice are those of
`score_solution`, which knows no engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from meshwright.schema import RequestError, TooLarge
from meshwright.schema.cost_graph import (
    CostGraphEngine,
    CostGraphFile,
    CostGraphProblem,
    CostGraphProgress,
    CostGraphSolution,
)
from meshwright_solver.common.deadline import Stop, never
from meshwright_solver.search.core.cost_graph import CostGraphError
from meshwright_solver.search.core.incumbent import SearchStep
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.documents.engines import Engine, compile_engine, search_with
from meshwright_solver.search.documents.graph_of_problem import graph_of_problem
from meshwright_solver.search.documents.solution_score import score_solution

_RELATIVE = 1e-9  # chosen: rounding difference between the engine's cost and the score

ProgressReport = Callable[[CostGraphProgress], None]


def solve_cost_graph(
    file: CostGraphFile,
    *,
    engine: CostGraphEngine = "auto",
    seconds: float | None = None,
    seed: int = 0,
    report: ProgressReport | None = None,
    stop: Stop = never,
) -> CostGraphSolution:
    """The best choice and its proved bound; infeasible is a solution too.

    seconds: of the search, without compilation in the first process on a machine; None: until the
    optimum is proved or the search converges. stop: polled; once true, the solution is the best so
    far. Raises RequestError if the engine cannot search this graph, TooLarge if its tables would
    take too much memory.
    """

    def tell(name: Engine, step: SearchStep) -> None:
        if report is not None:
            report(_progress(name, step))

    graph = graph_of_problem(file.problem)
    compile_engine(engine, graph)
    try:
        budget = SearchBudget(seconds=seconds, stop=stop)
        outcome, engines = search_with(engine, graph, budget, tell, seed=seed)
    except TableTooLarge as failure:
        raise TooLarge(f"engine {engine}: {failure}") from None
    except CostGraphError as failure:
        raise RequestError(str(failure)) from None
    return _solution(file.problem, outcome, engines, seed)


def _progress(engine: Engine, step: SearchStep) -> CostGraphProgress:
    return CostGraphProgress(
        engine=engine, cost=step.cost_ns, lower_bound=_finite(step.lower_bound_ns)
    )


def _solution(
    problem: CostGraphProblem,
    outcome: Outcome,
    engines: tuple[Engine, ...],
    seed: int,
) -> CostGraphSolution:
    bound = _finite(outcome.lower_bound_ns)
    solution = CostGraphSolution(
        name=problem.name,
        status=outcome.status,
        lower_bound=bound,
        usage_limit=problem.usage_limit,
        engines=engines,
        seed=seed,
        notes=outcome.notes,
    )
    if outcome.choice is None:
        return solution
    choice = tuple(outcome.choice.tolist())
    score = score_solution(problem, choice)
    assert score.is_allowed, "the engine's choice takes a forbidden strategy or pair"
    assert score.is_within, "the engine's choice exceeds the limit"
    assert math.isclose(score.cost, outcome.cost_ns, rel_tol=_RELATIVE, abs_tol=_RELATIVE)
    bound = None if bound is None else min(bound, score.cost)
    return solution.model_copy(
        update={
            "choice": choice,
            "cost": score.cost,
            "lower_bound": bound,
            "gap": _gap(score.cost, bound),
            "peak_usage": score.peak_usage,
            "peak_time": score.peak_time,
        }
    )


def _gap(cost: float, bound: float | None) -> float | None:
    if bound is None:
        return None
    if cost == bound:
        return 0.0
    return (cost - bound) / abs(cost) if cost else None


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
