"""Shard ownership: the shards of a rank between steps, and the replica that writes each of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from meshwright.runtime.checkpoint.index_runs import Runs, runs_of
from meshwright.schema import Layout, Mesh
from meshwright.schema.checkpoint import HeldStage
from meshwright.schema.rank_strategy import RankStage, RankStrategy
from meshwright.transfers.holding import PlacedMesh, PlacedTensor


class RankShards:
    """The shards of a rank.

    `stages` are the stages of the rank, by number. The first stage of a shared parameter writes it.
    """

    def __init__(self, strategy: RankStrategy) -> None:
        self.rank = strategy.rank
        stages = sorted(strategy.stages, key=lambda stage: stage.number)
        self.stages = tuple(map(_held_stage, stages))
        self._stage_of = {name: stage for stage in reversed(self.stages) for name in stage.layouts}
        self._numbered = {stage.number: stage for stage in self.stages}

    def runs(self, name: str, number: int) -> tuple[Runs, ...]:
        """The runs of the rank's shard of a parameter, in the stage of this number."""
        stage = self._numbered[number]
        return runs_of(stage.layouts[name], stage.mesh, self.rank - stage.ranks_from)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the whole parameter."""
        return self._stage_of[name].layouts[name].shape

    def writes(self, name: str) -> bool:
        """Whether the rank writes its shard. Replicas write the parameters in turn."""
        stage = self._stage_of[name]
        place = self.rank - stage.ranks_from
        turn = list(stage.layouts).index(name)
        layout, mesh = stage.layouts[name].model_dump_json(), stage.mesh.model_dump_json()
        replicas = _replicas(layout, mesh, place)
        return replicas[turn % len(replicas)] == place


def _held_stage(stage: RankStage) -> HeldStage:
    planned = stage.planned
    return HeldStage(
        number=stage.number,
        mesh=planned.mesh,
        ranks_from=planned.ranks_from,
        layouts={
            parameter.tensor: parameter.optimizer or parameter.value
            for parameter in planned.parameters
        },
    )


@lru_cache(maxsize=1024)
def _replicas(layout: str, mesh: str, rank: int) -> tuple[int, ...]:
    """The ranks of a mesh with the same shard as one of them. The layout and mesh are JSON text."""
    devices = Mesh.model_validate_json(mesh)
    site = PlacedMesh(devices, np.arange(devices.device_count))
    blocks = PlacedTensor.of(Layout.model_validate_json(layout), site).blocks
    return tuple(np.flatnonzero(blocks == blocks[rank]).tolist())
