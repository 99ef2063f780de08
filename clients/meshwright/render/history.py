"""Search history as text: the improved plans, with their search, cost and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from meshwright.common.units import show_ns
from meshwright.schema import Finding, Plan

FIRST, LAST = 1, 3  # chosen: entries shown of a long history


def history_lines(plan: Plan, seconds: Sequence[float] = ()) -> Iterator[str]:
    """One line per entry; of consecutive entries of one search on one mesh, only the last.

    `seconds` holds the time of each entry, in seconds after the start, or nothing.
    """
    steps = list(_steps(plan, seconds))
    omitted = len(steps) - FIRST - LAST
    for place, (finding, after_s) in enumerate(steps):
        if omitted > 1 and FIRST <= place < FIRST + omitted:
            if place == FIRST:
                yield f"… {omitted} more …"
            continue
        when = "" if after_s is None else f" after {show_ns(after_s * 1e9)}"
        yield f"{finding.search} found {show_ns(finding.cost_ns)}{when} on {finding.mesh}"


def _steps(plan: Plan, seconds: Sequence[float]) -> Iterator[tuple[Finding, float | None]]:
    history = plan.search.history
    times = seconds if len(seconds) == len(history) else (None,) * len(history)
    pairs = zip(history, times, strict=True)
    for _, run in groupby(pairs, key=lambda pair: (pair[0].search, pair[0].mesh)):
        yield list(run)[-1]
