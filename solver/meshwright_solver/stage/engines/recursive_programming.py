"""Recursive programming: strategies decided one mesh axis after the other."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright_solver.stage.engines.completion import StrategyProposal, proposal_search
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.heuristics.recursive_programming import recursive_programming
from meshwright_solver.stage.mesh_space import MeshSpace

_NAME = "recursive_programming"


def _proposals(space: MeshSpace) -> Iterator[StrategyProposal]:
    limit_bytes = space.models.problem.memory_limit_bytes
    filters = space.filters.all
    for strategies in recursive_programming(space.models, space.folding, filters, limit_bytes):
        yield StrategyProposal(strategies)


RECURSIVE_PROGRAMMING = Engine(
    _NAME,
    decides="strategies",
    proves="nothing",
    needs="a mesh",
    search=proposal_search(_NAME, _proposals),
)
