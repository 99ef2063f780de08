"""Shards of a rank in checkpoints, by parameter and stage.

A parameter of several stages on a rank is one parameter. The first stage's shard is written, and
the shard of each stage is read in its own layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch


class ShardId(NamedTuple):
    """The id of a shard: the parameter, and the number of the stage in the plan."""

    name: str
    stage: int


Shards = Mapping[ShardId, torch.nn.Parameter]


def first_shards(shards: Shards) -> dict[str, ShardId]:
    """The shard of the first stage of every parameter, which represents the others."""
    firsts: dict[str, ShardId] = {}
    for which in sorted(shards, key=lambda which: which.stage):
        firsts.setdefault(which.name, which)
    return {which.name: which for which in shards if firsts[which.name] == which}
