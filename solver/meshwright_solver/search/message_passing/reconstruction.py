"""The inverse of a change to a network, which turns its choices into choices of the graph."""

from __future__ import annotations

from typing import Protocol

from meshwright_solver.common.arrays import FloatArray, IntArray


class WayBack(Protocol):
    """Sets the states of nodes that a change removed; those of all other nodes are set."""

    def __call__(self, states: IntArray, known: dict[int, FloatArray], /) -> None: ...

    def wanted(self) -> IntArray:
        """The definitions whose arrays it reads in `known`."""
        ...
