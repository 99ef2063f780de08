"""Stated options of a request: those that differ from the default, under short names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from meshwright.reports.wishes import option_values, wish_values
from meshwright.schema import Plan, Setup

LONGEST = 60  # chosen: characters of a value
_NAMES = {
    "setup global_batch": "batch",
    "setup symbols seq": "seq",
    "setup microbatches": "microbatches",
    "setup memory_reserve": "reserve",
    "pipeline ranks": "pp",
    "pipeline stages_per_rank": "vp",
    "degrees zero": "ZeRO",
    "degrees sequence_parallel": "sequence parallel",
    "recompute policy": "recompute",
    "budget seconds": "budget",
    "setup precision": "precision",
    "setup execution": "execution",
}
_UNITS = {"budget": " s"}
_SHARES = ("reserve",)
_FLAGS = ("sequence parallel",)


def stated_options(plan: Plan, setup: Setup | None) -> dict[str, str]:
    """The options that the request of a plan states, by short name, with their values as text.

    setup: None if it is unknown. The calibration is an option too.
    """
    options = dict(_short(wish_values(plan.wishes)))
    if plan.wishes.pins:
        options["pins"] = _clipped("; ".join(map(str, plan.wishes.pins)))
    if setup is not None:
        options |= dict(_short(option_values(setup.to_dict(), "setup")))
    options["calibration"] = plan.calibration[:12]
    return options


def difference_texts(siblings: Iterable[tuple[Mapping[str, str], int]]) -> Iterator[str]:
    """For each distinct request, the options that not all requests state with the same value.

    siblings: the options of each distinct request, and the number of plans that state them. Two
    texts are equal only if the requests state the same options.
    """
    requests = list(siblings)
    total = sum(count for _, count in requests)
    stating: Counter[tuple[str, str]] = Counter()
    for options, count in requests:
        for option in options.items():
            stating[option] += count
    for options, _ in requests:
        differing = (option for option in options.items() if stating[option] < total)
        yield " · ".join(_text(name, value) for name, value in differing)


def _short(options: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in options:
        plain = name.removeprefix("degrees ").removeprefix("setup ").replace("_", " ")
        yield _NAMES.get(name, plain), _clipped(value)


def _clipped(value: str) -> str:
    """A value of at most `LONGEST` characters; a longer one has the head of its digest."""
    if len(value) <= LONGEST:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:8]
    return f"{value[: LONGEST - 10]}… {digest}"


def _text(name: str, value: str) -> str:
    if name in _FLAGS and value == "true":
        return name
    if name in _SHARES:
        return f"{name} {100 * float(value):.4g} %"
    return f"{name} {value}{_UNITS.get(name, '')}"
