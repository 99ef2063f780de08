"""Renaming: items of a plan with the names of another copy of a layer, or of another stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from meshwright.schema import Model, Stage

M = TypeVar("M", bound=Model)
_NAMES = ("op", "tensor")


def renamed(item: M, names: Mapping[str, str]) -> M:
    """Item with its op and tensor names replaced, as far as `names` has them."""
    fields = item.__dict__
    return item.like(
        **{field: names[fields[field]] for field in _NAMES if fields.get(field) in names}
    )


def renamed_copies(item: M, copies: Sequence[Mapping[str, str]]) -> list[M]:
    """Copies of an item, one per mapping of names."""
    named = [(field, name) for field in _NAMES if (name := item.__dict__.get(field)) is not None]
    if len(named) == 1:
        ((field, name),) = named
        return item.likes([{field: names.get(name, name)} for names in copies])
    return item.likes([{field: names.get(name, name) for field, name in named} for names in copies])


def renamed_stage(stage: Stage, names: Mapping[str, str]) -> Stage:
    """Stage with the names of all items replaced."""
    again = stage.recompute
    if again is not None:
        segments = [
            segment.like(
                ops=tuple([names[op] for op in segment.ops]),
                again=tuple([names[op] for op in segment.again]),
            )
            for segment in again.segments
        ]
        again = again.like(segments=tuple(segments))
    return stage.like(
        recompute=again,
        ops=tuple([renamed(item, names) for item in stage.ops]),
        tensors=tuple([renamed(item, names) for item in stage.tensors]),
        parameters=tuple([renamed(item, names) for item in stage.parameters]),
        redistributions=tuple([renamed(item, names) for item in stage.redistributions]),
        buckets=tuple(
            [
                bucket.like(tensors=tuple([names.get(name, name) for name in bucket.tensors]))
                for bucket in stage.buckets
            ]
        ),
    )
