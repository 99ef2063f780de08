"""Parts of plans under other names: what one copy of a layer, or one stage, says of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from meshwright.schema import Model, Stage

M = TypeVar("M", bound=Model)


def renamed(item: M, names: Mapping[str, str]) -> M:
    """An item that names an op or a tensor, or both, with the names that are known replaced."""
    known = type(item).model_fields
    given = {field: str(getattr(item, field)) for field in ("op", "tensor") if field in known}
    return item.like(**{field: names[name] for field, name in given.items() if name in names})


def renamed_stage(stage: Stage, names: Mapping[str, str]) -> Stage:
    """A stage with the names of all its items replaced."""
    return stage.like(
        ops=tuple([renamed(item, names) for item in stage.ops]),
        tensors=tuple([renamed(item, names) for item in stage.tensors]),
        parameters=tuple([renamed(item, names) for item in stage.parameters]),
        redistributions=tuple([renamed(item, names) for item in stage.redistributions]),
    )
