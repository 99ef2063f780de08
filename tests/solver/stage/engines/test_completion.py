"""Strategies completed to plans: of several proposals under a tight limit the cheapest plan."""

from __future__ import annotations

from meshwright.schema import Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.fold import Folding
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.stage.engines.completion import StrategyProposal, completed
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.requests import mlp_request


def test_the_cheapest_of_all_proposals_counts_where_the_limit_is_near() -> None:
    devices = preset("h100-2x8")
    graph = mlp_request(8, devices).graph

    def models(memory_bytes: int) -> Models:
        device = devices.device.model_copy(update={"memory_bytes": memory_bytes})
        own = devices.model_copy(update={"device": device})
        problem = build_problem(graph, own, Setup(), default_calibration(), 1)
        return Models(problem, find_values(problem), meshes(own, 2)[0])

    def cheapest(found: Models, proposals: list[StrategyProposal]) -> tuple[float, float]:
        own = completed(
            found,
            Folding.none(graph),
            "recursive_programming",
            proposals,
            SearchBudget(),
            lambda _: None,
        )
        return own.outcome.cost_ns, own.outcome.memory_bytes

    roomy = models(1 << 40)
    ops = [p for p in range(len(roomy.problem.ops)) if p not in roomy.values.views]
    # every op with its first, its last and its middle strategy: three plans of different cost
    proposals = []
    for share in (0.0, 0.5, 1.0):
        rows = {p: roomy.ops.model(p).choices for p in ops}
        chosen = {p: tuple(row[int(share * (len(row) - 1))].tolist()) for p, row in rows.items()}
        proposals.append(StrategyProposal(chosen))
    alone = [cheapest(roomy, [proposal]) for proposal in proposals]
    costs = [cost for cost, _ in alone]
    assert len(set(costs)) == 3
    # with room the first is taken, under a limit near to the first the others are tried too
    most = max(memory for _, memory in alone)
    near = models(int(most / (1 - Setup().memory_reserve)) + 1)
    largest = next(k for k, (_, memory) in enumerate(alone) if memory == most)
    others = [k for k in range(3) if k != largest]
    assert cheapest(roomy, [proposals[largest], proposals[others[0]]])[0] == costs[largest]
    for other in others:
        found = cheapest(near, [proposals[largest], proposals[other]])
        assert found[0] == min(costs[largest], costs[other])
