"""Which search found the cheaper plans of a search, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from meshwright.schema import Finding, Plan
from meshwright.units import show_ns

FIRST, LAST = 1, 3  # of many findings; chosen


def history_lines(plan: Plan, seconds: Sequence[float] = ()) -> Iterator[str]:
    """A line a finding; of those that follow each other by one search on one mesh the last.

    seconds: when each was found after the start; empty where that is not known.
    """
    found = list(_steps(plan, seconds))
    left_out = len(found) - FIRST - LAST
    for place, (finding, after_s) in enumerate(found):
        if left_out > 1 and FIRST <= place < FIRST + left_out:
            if place == FIRST:
                yield f"… {left_out} more …"
            continue
        when = "" if after_s is None else f" after {show_ns(after_s * 1e9)}"
        yield f"{finding.search} found {show_ns(finding.cost_ns)}{when} on {finding.mesh}"


def _steps(plan: Plan, seconds: Sequence[float]) -> Iterator[tuple[Finding, float | None]]:
    history = plan.search.history
    times = seconds if len(seconds) == len(history) else (None,) * len(history)
    pairs = zip(history, times, strict=True)
    for _, own in groupby(pairs, key=lambda pair: (pair[0].search, pair[0].mesh)):
        yield list(own)[-1]
