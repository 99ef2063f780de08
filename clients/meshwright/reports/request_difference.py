"""The options in which the requests of two plans differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
    wishes = plan.wishes.model_dump(mode="json", exclude_defaults=True, exclude={"pins"})
    options |= _flat(wishes, "")
    if plan.wishes.pins:
        options["pins"] = "; ".join(map(str, plan.wishes.pins))
    if request.setup is not None:
        options |= _flat(request.setup.to_dict(), "setup ")
    return options


def _flat(values: Mapping[str, object], prefix: str) -> dict[str, str]:
    """Options by name, nested names apart by a blank, with their values as text."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list | tuple):
            flat[prefix + name] = ", ".join(map(str, value))
        else:
            flat[prefix + name] = str(value).lower() if isinstance(value, bool) else str(value)
    flat.pop("setup schema_version", None)
    return flat
