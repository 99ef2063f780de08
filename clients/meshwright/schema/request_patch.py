"""Request patches: changes of a planning request as JSON Merge Patches (RFC 7396)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from meshwright.schema.model import Line, Model, Whole
from meshwright.schema.pipeline import Pipeline
from meshwright.schema.recompute import Recompute
from meshwright.schema.setup import Setup

Part = Literal["pipeline", "recompute", "setup"]
PARTS: dict[Part, type[Model]] = {"pipeline": Pipeline, "recompute": Recompute, "setup": Setup}

Changes = dict[Part, dict[str, Whole | Line | None]]


def _check_fields(changes: Changes) -> Changes:
    for part, fields in changes.items():
        for name in fields:
            if name not in PARTS[part].model_fields:
                raise ValueError(f"{name[:80]!r} is not a field of {part}")
    return changes


# the new value by part of a request and field; null resets a field to its default
RequestPatch = Annotated[Changes, AfterValidator(_check_fields)]


def joined(first: RequestPatch, second: RequestPatch) -> RequestPatch:
    """The composition of two patches: `first`, then `second`."""
    parts = {**first, **second}  # in the order of `first`
    return {part: {**first.get(part, {}), **second.get(part, {})} for part in parts}
