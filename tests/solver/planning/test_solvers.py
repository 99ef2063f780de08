"""Every search gives plans that are priced by the one judge, proved by execution, and honest."""

from __future__ import annotations

from typing import get_args

import pytest

from meshwright.schema import Budget, Pin, Plan, Progress, Request, Setup
from meshwright.schema.request_options import Solver
from meshwright_costmodel.presets import preset
from meshwright_solver.common.deadline import never
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.layered import layered
from tests.solver.requests import mlp_request, problem_of, toy_request
from tests.solver.small_graphs import topology
from tests.solver.stage.heuristics.test_recursive_programming import stored

SOLVERS: tuple[Solver, ...] = get_args(Solver)
MLP = mlp_request(16, topology(2, 4), rows=32, width=256)
CASES: dict[str, Request] = {
    "wide-deep": one_stage_request(
        graph=stored("wide-deep"), topology=preset("h100-2x8"), setup=Setup(microbatches=1)
    ),
    "mlp": MLP,
}


def planned(case: str, solver: Solver) -> Plan:
    changes = {"solver": solver, "budget": Budget(simplicity=0)}
    found = plan(CASES[case].model_copy(update=changes)).plan
    assert found is not None
    return found


@pytest.mark.rotating
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", CASES)
def test_plans_are_judged_proved_and_never_better_than_the_optimum(
    case: str, solver: Solver
) -> None:
    request = CASES[case]
    found, best = planned(case, solver), planned(case, "dynamic_programming")
    assert evaluate(problem_of(request), found) == found.cost
    assert found.search.cost_ns == found.cost.objective_ns
    assert found.search.lower_bound_ns <= best.cost.objective_ns * (1 + 1e-9)
    assert best.search.lower_bound_ns <= found.cost.objective_ns * (1 + 1e-9)
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail
    assert found.wishes.solver == solver
    assert found.search.found_by in (solver, "dynamic_programming")


@pytest.mark.parametrize("solver", SOLVERS)
def test_histories_descend_to_the_plan(solver: Solver) -> None:
    found = planned("wide-deep", solver)
    costs = [finding.cost_ns for finding in found.search.history]
    assert costs == sorted(costs, reverse=True)
    extra_ns = found.search.faster_ns + found.search.simplicity_ns
    assert costs[-1] == pytest.approx(found.cost.objective_ns - extra_ns, rel=1e-9)
    assert found.search.history[-1].search == found.search.found_by


def test_a_budget_brings_a_plan_at_once_and_a_stop_ends_the_search() -> None:
    said: list[Progress] = []

    def has_plan() -> bool:
        return any(progress.incumbent_ns is not None for progress in said)

    within = MLP.model_copy(update={"budget": Budget(seconds=9)})
    cut = plan(within, said.append, has_plan)
    assert cut.plan is not None
    assert cut.plan.search.history[0].search == "recursive_programming"
    assert cut.plan.search.lower_bound_ns <= cut.plan.cost.objective_ns
    whole = plan(within, stop=never)
    assert whole.plan is not None
    assert whole.plan.cost.objective_ns <= cut.plan.cost.objective_ns


def test_repeated_blocks_with_one_pinned_are_searched_exactly() -> None:
    """Coarser lowerings share the state arrays of ops with finer ones."""
    pin = Pin(op="3.linear", strategy={"n": ("gpu",)})
    request = toy_request(
        graph=layered(), topology=topology(2, 2), setup=Setup(microbatches=4), pins=(pin,)
    )
    costs = {
        solver: plan(request.model_copy(update={"solver": solver})).plan
        for solver in ("exact", "dynamic_programming")
    }
    found = {None if own is None else round(own.cost.objective_ns) for own in costs.values()}
    assert None not in found
    assert len(found) == 1
