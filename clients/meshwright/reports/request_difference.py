"""The options in which the requests of two plans differ."""

from __future__ import annotations

from collections.abc import Iterator
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
    sides = [_options(request) for request in (first, second)]
    for option in dict.fromkeys((*sides[0], *sides[1])):
        values = [side.get(option, _DEFAULT) for side in sides]
        if values[0] != values[1]:
            yield RequestDifference(
                option=option, first=values[0][:_LONGEST], second=values[1][:_LONGEST]
            )


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
