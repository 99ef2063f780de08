"""Problem documents back into the errors they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meshwright.schema.errors import InvalidInput, MeshwrightError, Unavailable

PREFIX = "urn:meshwright:problem:"


def error_of(problem: Mapping[str, Any]) -> MeshwrightError:
    """The error that a problem document speaks of, of the narrowest class known here."""
    slug = str(problem.get("type", "")).removeprefix(PREFIX)
    detail = str(problem.get("detail") or problem.get("title") or "no detail was given")
    errors = problem.get("errors") or [{}]
    pointer = str(errors[0].get("pointer", "")) if isinstance(errors[0], Mapping) else ""
    kind = _classes().get(slug) or _by_status(problem.get("status"))
    error = kind(detail, pointer=pointer)
    error.received = problem
    return error


def _by_status(status: object) -> type[MeshwrightError]:
    if isinstance(status, int) and 400 <= status < 500:
        return InvalidInput
    return Unavailable if status in (502, 503, 504) else MeshwrightError


def _classes() -> dict[str, type[MeshwrightError]]:
    return {kind.slug: kind for kind in _tree(MeshwrightError)}


def _tree(kind: type[MeshwrightError]) -> Iterator[type[MeshwrightError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _tree(narrower)
