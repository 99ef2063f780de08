"""The options in which the requests of two plans differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshwright.reports.wishes import option_values, wish_values
from meshwright.schema import Plan, Setup
from meshwright.schema.comparison import RequestDifference

_LONGEST = 200  # chosen: characters of a value
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class RequestSide:
    """The request of a plan, as far as it is known. topology: its name, or its id."""

    plan: Plan
    setup: Setup | None = None
    topology: str = ""


def request_differences(first: RequestSide, second: RequestSide) -> Iterator[RequestDifference]:
    """The options whose values differ: documents first, then options, then those of the setup."""
    for option, values in differing_options((first, second)):
        yield RequestDifference(option=option, first=values[0], second=values[1])


def differing_options(sides: Sequence[RequestSide]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The options whose values are not the same on all sides, each with its values."""
    options = [_options(side) for side in sides]
    for option in dict.fromkeys(name for side in options for name in side):
        values = [side.get(option, _DEFAULT) for side in options]
        if len(set(values)) > 1:
            yield option, tuple(value[:_LONGEST] for value in values)


def _options(request: RequestSide) -> dict[str, str]:
    plan = request.plan
    options = {
        "graph": plan.graph,
        "topology": request.topology or plan.topology,
        "calibration": plan.calibration,
    }
    options |= dict(wish_values(plan.wishes))
    if plan.wishes.pins:
        options["pins"] = "; ".join(map(str, plan.wishes.pins))
    if request.setup is not None:
        options |= dict(option_values(request.setup.to_dict(), "setup"))
    return options
