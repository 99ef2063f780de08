"""Semi-automatic planning: pinned strategies, and the rest data parallel or propagated."""

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
from meshwright_solver.stage.heuristics.propagation.semi_auto import semi_auto
from meshwright_solver.stage.mesh_space import MeshSpace

_NAME = "semi_auto"


def _proposals(space: MeshSpace) -> Iterator[StrategyProposal]:
    filters, rest = space.filters, space.request.rest
    spread = partial(
        semi_auto, space.models, filters.pinned, rest, tied_ops(space), filters.allowed
    )
    return priced_proposals(space, spread)


SEMI_AUTO = Engine(
    _NAME,
    decides="strategies",
    proves="nothing",
    needs="pins, to differ from data parallelism",
    search=proposal_search(_NAME, _proposals),
)
