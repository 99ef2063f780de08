"""Whole answers of a search that goes on: what it would answer with, were it to end now.

A search offers what makes such an answer at every point where it has a better plan. Who wants it,
and how often, is not the search's: whether it is made changes nothing of how the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright.schema import Answer

Make = Callable[[], Answer | None]
Keep = Callable[[Make], None]


def unwanted(make: Make) -> None:
    """Nobody keeps answers."""
    del make


def through(keep: Keep, change: Callable[[Answer], Answer]) -> Keep:
    """For a search whose answers are changed before they are anybody's."""

    def offer(make: Make) -> None:
        def changed() -> Answer | None:
            own = make()
            return None if own is None else change(own)

        keep(changed)

    return offer


class Best:
    """For searches one after the other: what those before found is not worse for the next one."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._found: Answer | None = None

    def __call__(self, make: Make) -> None:
        self._keep(lambda: _better(self._found, make()))

    def add(self, answer: Answer) -> None:
        """What one of them ended with."""
        self._found = _better(self._found, answer)

    def offer(self) -> None:
        """What is known without another search's plan."""
        if self._found is not None and self._found.plan is not None:
            self._keep(lambda: self._found)


def _better(one: Answer | None, other: Answer | None) -> Answer | None:
    if one is None or one.plan is None:
        return other
    if other is None or other.plan is None:
        return one
    return other if other.plan.cost.step_ns < one.plan.cost.step_ns else one
