"""Sharding propagation: the strategies of a few ops, spread over the graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from meshwright_solver.stage.engines.completion import (
    StrategyProposal,
    priced_proposals,
    proposal_search,
    tied_ops,
)
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import (
    sharding_propagation,
)
from meshwright_solver.stage.mesh_space import MeshSpace

_NAME = "sharding_propagation"


def _proposals(space: MeshSpace) -> Iterator[StrategyProposal]:
    filters = space.filters
    spread = partial(
        sharding_propagation, space.models, filters.pinned, tied_ops(space), filters.allowed
    )
    return priced_proposals(space, spread)


SHARDING_PROPAGATION = Engine(
    _NAME,
    decides="strategies",
    proves="nothing",
    needs="a mesh",
    search=proposal_search(_NAME, _proposals),
)
