"""What a rank holds of every parameter between steps, and which of equal replicas writes it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from meshwright.runtime.checkpoint.runs import Runs, runs_of
from meshwright.schema import Layout, Mesh
from meshwright.schema.checkpoint import HeldStage
from meshwright.schema.rank_strategy import RankStage, RankStrategy
from meshwright.schema.routing.holding import Holding, Site


class Share:
    """stages: the rank's, in the order of their numbers; of those with one parameter the first
    writes it."""

    def __init__(self, strategy: RankStrategy) -> None:
        self.rank = strategy.rank
        self.stages = tuple(map(_held, sorted(strategy.stages, key=lambda stage: stage.number)))
        self._stage_of = {name: stage for stage in reversed(self.stages) for name in stage.layouts}
        self._numbered = {stage.number: stage for stage in self.stages}

    def runs(self, name: str, number: int) -> tuple[Runs, ...]:
        """What the rank holds of a parameter in a stage, by its number."""
        stage = self._numbered[number]
        return runs_of(stage.layouts[name], stage.mesh, self.rank - stage.ranks_from)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the whole parameter."""
        return self._stage_of[name].layouts[name].shape

    def writes(self, name: str) -> bool:
        """Whether the rank writes its part: one of those that hold the same does, in turns."""
        stage = self._stage_of[name]
        own = self.rank - stage.ranks_from
        turn = list(stage.layouts).index(name)
        equal = _replicas(stage.layouts[name].model_dump_json(), stage.mesh.model_dump_json(), own)
        return equal[turn % len(equal)] == own


def _held(stage: RankStage) -> HeldStage:
    planned = stage.planned
    return HeldStage(
        number=stage.number,
        mesh=planned.mesh,
        ranks_from=planned.ranks_from,
        layouts={own.tensor: own.optimizer or own.value for own in planned.parameters},
    )


@lru_cache(maxsize=1024)
def _replicas(layout: str, mesh: str, rank: int) -> tuple[int, ...]:
    """The ranks of a mesh that hold the same as one of them; both in JSON."""
    devices = Mesh.model_validate_json(mesh)
    site = Site(devices, np.arange(devices.device_count))
    blocks = Holding.of(Layout.model_validate_json(layout), site).blocks
    return tuple(np.flatnonzero(blocks == blocks[rank]).tolist())
