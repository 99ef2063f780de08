"""Corruptions of plan documents: one field at a time gets a value of another meaning."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from meshwright.schema import Model, ParameterPlan, Plan, Redistribution, TensorPlan

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Corruption:
    """One change of a plan document.

    field: the names of fields on the way to it, without positions and keys. change: its kind.
    """

    path: Path
    value: Any
    field: str
    change: str

    def __str__(self) -> str:
        return f"{self.field}: {self.change}"

    def of(self, document: Any) -> Any:
        """The document with this change."""
        return _replaced(document, self.path, self.value)


def corruptions(plan: Plan, *, each: int, seed: int = 0) -> list[Corruption]:
    """Corruptions of every field of a plan, `each` of every kind of change of a field."""
    kinds: dict[str, list[Corruption]] = {}
    for corruption in _of_model(plan, (), ""):
        kinds.setdefault(str(corruption), []).append(corruption)
    draw = random.Random(seed)
    return [
        corruption
        for kind in kinds.values()
        for corruption in draw.sample(kind, min(each, len(kind)))
    ]


def _replaced(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = _replaced(document[path[0]], path[1:], value)
    return copy


def _of_model(model: Model, path: Path, field: str) -> Iterator[Corruption]:
    for name, info in type(model).model_fields.items():
        yield from _of_value(
            getattr(model, name), info.annotation, (*path, name), f"{field}.{name}".lstrip(".")
        )


def _of_value(value: Any, kind: Any, path: Path, field: str) -> Iterator[Corruption]:
    for change, other in _others(value, _plain(kind)):
        yield Corruption(path, other, field, change)
    if isinstance(value, Model):
        yield from _of_model(value, path, field)
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _of_value(item, _item_kind(kind), (*path, position), field)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _of_value(item, _item_kind(kind), (*path, key), f"{field}[]")


def _others(value: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    """Changes of one value, each with its name."""
    literals = _literals(kind)
    if value is not None and type(None) in get_args(kind):
        yield "left out", None
    if isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, int | float):
        yield "raised", value * 2 + 3
        if value > 1:
            yield "lowered", value // 2 if isinstance(value, int) else value / 2
        if isinstance(value, int) and literals:
            yield from (("another", other) for other in literals if other != value)
    elif isinstance(value, str) and literals:
        yield from ((f"another: {other}", other) for other in literals if other != value)
    elif isinstance(value, str):
        yield "renamed", f"{value} of another"
    elif isinstance(value, tuple) and value:
        items = [_json(item) for item in value]
        yield "first left out", items[1:]
        yield "last twice", [*items, items[-1]]
        if len(items) > 1:
            yield "last left out", items[:-1]
            if items != items[::-1] and not _is_set(value):
                yield "reversed", items[::-1]
    elif isinstance(value, dict) and any(item != 0.0 for item in value.values()):
        items = {key: _json(item) for key, item in value.items()}
        last = next(key for key in reversed(items) if items[key] != 0.0)
        yield "one left out", {key: item for key, item in items.items() if key != last}
        yield "one more", {**items, "another": items[last]}
        yield "key renamed", {key if key != last else "another": v for key, v in items.items()}


def _is_set(value: tuple[Any, ...]) -> bool:
    """Whether items are found by their names, so that their order has no meaning."""
    return isinstance(value[0], TensorPlan | ParameterPlan | Redistribution)


def _json(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, Model) else value


def _plain(kind: Any) -> Any:
    """An annotation without NewType and Annotated."""
    while True:
        if hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif hasattr(kind, "__metadata__"):
            kind = kind.__origin__
        else:
            return kind


def _literals(kind: Any) -> list[Any]:
    kind = _plain(kind)
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return [other for part in get_args(kind) for other in _literals(part)]
    return []


def _item_kind(kind: Any) -> Any:
    """The annotation of the items of a tuple or dict."""
    kind = _plain(kind)
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if get_origin(_plain(part)) in (tuple, dict))
    parts = get_args(_plain(kind))
    return parts[-1] if get_origin(_plain(kind)) is dict else parts[0]
