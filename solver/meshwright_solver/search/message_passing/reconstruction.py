"""What a change of a network leaves behind, so that its choices become choices of the graph."""

from __future__ import annotations

from typing import Protocol

from meshwright_solver.common.arrays import FloatArray, IntArray


class WayBack(Protocol):
    """Fills in the states of nodes that a change took out; those of all others are there."""

    def __call__(self, states: IntArray, known: dict[int, FloatArray], /) -> None: ...

    def wanted(self) -> IntArray:
        """The definitions whose arrays it reads in `known`."""
        ...
