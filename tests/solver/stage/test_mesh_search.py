"""Mesh by mesh: progress, time that ends, tables that would be too large."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meshwright.schema import Budget, Progress
from meshwright.schema.request_options import Solver
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.planning.planner import plan
from tests.solver.requests import mlp_request, planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology


def test_progress_names_each_mesh_and_ends():
    said: list[Progress] = []
    plan(mlp_request(4, topology(2, 8)), said.append)
    assert said[0].phase == "reading"
    assert said[-1].done == said[-1].total
    on_meshes = [progress for progress in said if "node" in progress.phase]
    searched = {mesh for axes in (2, 3) for mesh in meshes(topology(2, 8), axes)}  # coarse first
    assert len({progress.phase for progress in on_meshes}) == len(searched)
    costs = [progress.incumbent_ns for progress in on_meshes if progress.incumbent_ns is not None]
    assert costs
    assert costs == sorted(costs, reverse=True)


def test_a_search_without_time_says_so_and_never_that_nothing_fits():
    answer = plan(
        mlp_request(4, topology(2, 4)).model_copy(update={"budget": Budget(seconds=1e-9)})
    )
    assert answer.plan is None
    assert answer.infeasible is not None
    assert answer.infeasible.constraint == "time"
    assert "time budget" in answer.infeasible.detail


def test_what_no_layout_makes_fit_is_told_without_any_time() -> None:
    request = mlp_request(1, topology(2, memory_bytes=400_000), rows=2048, width=8)
    answer = plan(request.model_copy(update={"budget": Budget(seconds=1e-9)}))
    assert answer.infeasible is not None
    assert answer.infeasible.constraint == "memory"


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.05, 0.2])
def test_a_search_cut_short_gives_an_honest_plan_or_says_that_time_ended(seconds):
    request = mlp_request(8, topology(4, 8, memory_bytes=1 << 28))
    answer = plan(request.model_copy(update={"budget": Budget(seconds=seconds)}))
    if answer.infeasible is not None:
        assert answer.infeasible.constraint == "time"
        return
    assert answer.plan is not None
    search = answer.plan.search
    assert 0 <= search.lower_bound_ns <= search.cost_ns
    assert (search.outcome == "optimal") == (search.gap <= TOLERANCE * 1.000001)


def test_a_plan_found_before_any_mesh_was_searched_is_not_called_the_best() -> None:
    request = mlp_request(8, topology(4, 8))
    found: list[float] = []

    def hear(progress: Progress) -> None:
        if progress.incumbent_ns is not None:
            found.append(progress.incumbent_ns)

    hurried = request.model_copy(update={"budget": Budget(seconds=9)})
    soon = plan(hurried, hear, lambda: bool(found)).plan
    assert soon is not None
    assert soon.search.found_by == "recursive_programming"
    assert sum("was not searched" in note for note in soon.notes) == len(meshes(topology(4, 8), 3))
    # all that is known: no op can be faster than at its fastest
    best = planned(request)
    assert soon.search.lower_bound_ns < best.cost.objective_ns <= soon.cost.objective_ns
    assert soon.search.outcome == "feasible"


def test_who_ends_the_search_at_once_has_a_plan_all_the_same() -> None:
    request = mlp_request(8, topology(4, 8))
    answer = plan(request, stop=lambda: True)
    assert answer.plan is not None
    assert answer.plan.search.found_by == "recursive_programming"
    assert answer.plan.search.outcome == "feasible"


@pytest.mark.parametrize(
    "solver", ["auto", "recursive_programming", "sharding_propagation", "semi_auto"]
)
def test_whoever_ends_a_search_at_whatever_moment_is_soon_answered(solver: Solver) -> None:
    request = mlp_request(3, topology(2, 4)).model_copy(update={"solver": solver})
    asked = 0

    def ends_at(moment: int) -> Callable[[], bool]:
        def stop() -> bool:
            nonlocal asked
            asked += 1
            return asked > moment

        return stop

    best, unhurried = planned(request), ends_at(10**9)
    plan(request, stop=unhurried)
    whole, cut_short = asked, 0
    assert whole > 50  # nothing runs long without a look at who waits
    for moment in range(0, whole, whole // 10):
        asked = 0
        answer = plan(request, stop=ends_at(moment))
        if answer.plan is None:
            assert answer.infeasible is not None
            assert answer.infeasible.constraint == "time"
            assert solver != "auto"
            cut_short += 1
        else:
            assert answer.plan.cost.objective_ns >= best.search.lower_bound_ns
    assert (cut_short > 0) == (solver != "auto")


def entangled() -> GraphMaker:
    # 6 tensors that 6 ops read all together: eliminating any one joins the 5 or 6 others
    maker = GraphMaker()
    tensors = [
        maker.op("gelu", [maker.parameter(f"p{k}", 64, 64)], [64, 64], f"t{k}") for k in range(6)
    ]
    rule = ", ".join(["a b"] * 6) + " -> a b"
    for k in range(6):
        maker.op("mix", tensors, [64, 64], f"m{k}", rule=rule)
    return maker


def test_what_is_too_entangled_for_three_axes_is_eliminated_on_fewer():
    graph = entangled().graph(*(f"m{k}:out" for k in range(6)))
    request = toy_request(graph=graph, topology=topology(2, 4), solver="dynamic_programming")
    found = planned(request)
    assert [len(mesh.split(" × ")) for mesh in found.search.meshes] == [2]
    assert found.search.lower_bound_ns <= found.cost.objective_ns


def test_what_is_too_entangled_to_eliminate_is_searched_all_the_same():
    graph = entangled().graph(*(f"m{k}:out" for k in range(6)))
    request = toy_request(graph=graph, topology=topology(2, 4), budget=Budget(seconds=20))
    found = planned(request)
    assert max(len(mesh.split(" × ")) for mesh in found.search.meshes) == 3
    assert found.search.lower_bound_ns <= found.cost.objective_ns
    fewer = request.model_copy(update={"solver": "dynamic_programming"})
    assert found.cost.objective_ns <= planned(fewer).cost.objective_ns * (1 + 1e-9)
