"""Check of query parameters: only known ones, each at most once unless it is a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from meshwright.schema import NotFound
from meshwright_service.common.errors import ParameterError


async def check_parameters(request: Request) -> None:
    """A dependency of all endpoints; raises ParameterError for an unknown or repeated parameter.

    A misspelled filter would otherwise match everything.
    """
    for name, value in request.path_params.items():
        if not value.isprintable():  # some databases reject it
            raise NotFound(f"no {name} has the id {value[:100]!a}")
    if not request.query_params:
        return
    lists = dict(_names(cast(APIRoute, request.scope["route"]).dependant))
    known = sorted(lists)
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name not in known:
            hint = f"the parameters here are {', '.join(known)}" if known else "there are none here"
            raise ParameterError(f"unknown parameter {name[:80]!r}; {hint}")
        if name in seen and not lists[name]:
            raise ParameterError(f"parameter {name!r} is given twice")
        if not value.isprintable():
            raise ParameterError(f"parameter {name!r} must be printable, got {value[:80]!a}")
        seen.add(name)


def _names(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """The names of the parameters, and whether each is a list."""
    for field in dependant.query_params:
        yield field.alias, get_origin(field.field_info.annotation) is list
    for part in dependant.dependencies:
        yield from _names(part)
