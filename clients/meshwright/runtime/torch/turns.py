"""Sequences brought into the order in which they are loaded, and back to true positions."""

from __future__ import annotations

from functools import lru_cache

import torch

from meshwright.runtime.ordered import Turn, Turns

T = torch.Tensor


def turned(local: T, turns: Turns) -> T:
    """The same elements in other places of some dims, of which this rank has all."""
    for dim, turn in turns.items():
        local = local.index_select(dim, places(turn, local.device))
    return local


@lru_cache(maxsize=16)
def places(turn: Turn, device: torch.device) -> T:
    """Where each index comes from."""
    return torch.tensor(turn.places, device=device)
