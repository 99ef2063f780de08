"""Collective error checks: if one rank fails, all ranks raise an error instead of waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from meshwright.schema import CheckpointError

R = TypeVar("R")


def together(doing: str, work: Callable[[], R]) -> list[R]:
    """The result of the work on every rank.

    If the work fails on a rank, that rank raises its error, and all others raise a CheckpointError
    that names it.
    """
    failed: Exception | None = None
    outcome: tuple[str, Any] = ("", None)
    try:
        outcome = ("", work())
    except Exception as why:  # the others wait for this rank's outcome, whatever the error is
        failed, outcome = why, (str(why) or type(why).__name__, None)
    outcomes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(outcomes, outcome)
    if failed is not None:
        raise failed
    for rank, (error, _) in enumerate(outcomes):
        if error:
            raise CheckpointError(f"rank {rank} failed while {doing}: {error}")
    return [result for _, result in outcomes]
