"""Shards of a rank as checkpoints have them: by parameter, and by the stage that holds it.

A parameter that several stages of a rank hold is one parameter, of which the first stage's shard is
written; each of them is read, as its stage has it laid out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch


class ShardId(NamedTuple):
    """stage: by its number in the plan."""

    name: str
    stage: int


Shards = Mapping[ShardId, torch.nn.Parameter]


def first_shards(shards: Shards) -> dict[str, ShardId]:
    """Of every parameter the shard that stands for all that the rank has of it."""
    found: dict[str, ShardId] = {}
    for own in sorted(shards, key=lambda own: own.stage):
        found.setdefault(own.name, own)
    return {own.name: own for own in shards if found[own.name] == own}
