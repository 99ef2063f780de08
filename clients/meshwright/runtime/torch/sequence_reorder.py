"""Permutations of sequences into the loaded order, and back to true positions."""

from __future__ import annotations

from functools import lru_cache

import torch

from meshwright.runtime.sequence_order import Turn, Turns

T = torch.Tensor


def turned(local: T, turns: Turns) -> T:
    """The tensor with some dims permuted. This rank has the whole of these dims."""
    for dim, turn in turns.items():
        local = local.index_select(dim, places(turn, local.device))
    return local


@lru_cache(maxsize=16)
def places(turn: Turn, device: torch.device) -> T:
    """The source index of each index."""
    return torch.tensor(turn.places, device=device)
