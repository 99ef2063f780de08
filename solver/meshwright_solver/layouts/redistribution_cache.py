"""Redistribution cache: those of values that searches of this thread used last.

The searches of a request, and of requests for the same model, mostly have the same meshes.
"""

from __future__ import annotations

from threading import local

from meshwright_costmodel.collectives import Interconnect
from meshwright_solver.common.recent import Recent
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.layouts.states import StateSpace

_KEPT_NUMBERS = 8_000_000  # chosen: 64 MB of distances between layouts


class _RedistributionCache(local):
    """Of one thread: what is computed of redistributions is not thread-safe."""

    def __init__(self) -> None:
        self.entries = Recent[Redistributions](_numbers, _KEPT_NUMBERS)


def redistributions_of(
    space: StateSpace,
    axis_levels: tuple[int, ...],
    interconnect: Interconnect,
    *,
    order_is_free: bool = False,
) -> Redistributions:
    """The redistributions with these fields; equal ones are one object while they are kept."""
    key = space, axis_levels, interconnect, order_is_free
    return _CACHE.entries.get(
        key,
        lambda: Redistributions(space, axis_levels, interconnect, order_is_free),
    )


def _numbers(redistributions: Redistributions) -> int:
    """The most distances that it may compute."""
    return len(redistributions.layouts.states) ** 2


_CACHE = _RedistributionCache()
