"""Work that all ranks do, or none has done: a rank that fails is not waited for by the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from meshwright.schema import CheckpointError

R = TypeVar("R")


def together(doing: str, work: Callable[[], R]) -> list[R]:
    """What the work gave on every rank. Where it fails on one, that one raises its own error, and
    all others a CheckpointError that names it."""
    failed: Exception | None = None
    outcome: tuple[str, Any] = ("", None)
    try:
        outcome = ("", work())
    except Exception as why:  # the others wait for this rank's word, whatever went wrong
        failed, outcome = why, (str(why) or type(why).__name__, None)
    said: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(said, outcome)
    if failed is not None:
        raise failed
    for rank, (error, _) in enumerate(said):
        if error:
            raise CheckpointError(f"rank {rank} failed while {doing}: {error}")
    return [found for _, found in said]
