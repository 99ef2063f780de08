"""Answers of a running search: the answer if the search ended now.

A search offers a factory of such an answer whenever it has a better plan. The receiver decides
whether and how often it calls the factory; a call does not affect the search.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from meshwright.schema import Answer

Make = Callable[[], Answer | None]
Keep = Callable[[Make], None]


def unwanted(make: Make) -> None:
    """Discard all answers."""
    del make


def through(keep: Keep, change: Callable[[Answer], Answer]) -> Keep:
    """A receiver for a search whose answers are changed before use."""

    def offer(make: Make) -> None:
        def changed() -> Answer | None:
            answer = make()
            return None if answer is None else change(answer)

        keep(changed)

    return offer


class Best:
    """The best answer of consecutive searches: a later search never makes it worse."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._answer: Answer | None = None
        self._offered_ns = inf

    def __call__(self, make: Make) -> None:
        self._keep(lambda: self._unless_slower(_better(self._answer, make())))

    def expect(self, step_ns: float) -> None:
        """Offer nothing slower from now on: an answer with this step has been offered."""
        self._offered_ns = min(self._offered_ns, step_ns)

    def add(self, answer: Answer) -> None:
        """Add the final answer of a search."""
        self._answer = _better(self._answer, answer)

    def offer(self) -> None:
        """Offer the best answer of the searches that have ended."""
        if self._unless_slower(self._answer) is not None:
            self._keep(lambda: self._answer)

    def _unless_slower(self, answer: Answer | None) -> Answer | None:
        if answer is None or answer.plan is None:
            return None
        return answer if answer.plan.cost.step_ns <= self._offered_ns else None


def _better(one: Answer | None, other: Answer | None) -> Answer | None:
    if one is None or one.plan is None:
        return other
    if other is None or other.plan is None:
        return one
    return other if other.plan.cost.step_ns < one.plan.cost.step_ns else one
