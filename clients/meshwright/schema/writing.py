"""Documents as JSON text, without fields at their default; what items share is written once.

A plan of a large graph says the same layouts of thousands of tensors: as a tree of Python's dicts
it would be ten times as large, and take ten times as long. Items of a list that say the same but
for their names (`Model.naming`) are written once too, and stamped. The texts are those of
`model_dump(mode="json", exclude_defaults=True)`, as it is or in canonical form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from json.encoder import encode_basestring
from math import isfinite
from operator import itemgetter
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from meshwright.schema.canonical import canonical_json

Field = tuple[str, str, Any]  # name, name as it is written, default
Fields = Callable[[type[BaseModel]], tuple[Field, ...] | None]


def written(document: BaseModel) -> str:
    """The document as compact JSON text; ValueError for a number that JSON does not have."""
    return _Writer(_fields, _text, _PLAIN).item(document)


def written_canonically(document: BaseModel) -> str:
    """`canonical_json` of the document."""
    # of ASCII there is one form only
    found = _Writer(_sorted_fields, canonical_json, _CANONICAL_ASCII).item(document)
    if found.isascii():
        return found
    return _Writer(_sorted_fields, canonical_json, _CANONICAL).item(document)


@lru_cache(maxsize=1024)
def _fields(kind: type[BaseModel]) -> tuple[Field, ...] | None:
    """In their order; None where the kind has a way of its own."""
    if kind.__pydantic_decorators__.model_serializers:
        return None
    return tuple(
        (
            name,
            f"{encode_basestring(name)}:",
            _NOTHING if field.is_required() else field.get_default(call_default_factory=True),
        )
        for name, field in kind.model_fields.items()
    )


@lru_cache(maxsize=1024)
def _sorted_fields(kind: type[BaseModel]) -> tuple[Field, ...] | None:
    fields = _fields(kind)
    return None if fields is None else tuple(sorted(fields, key=lambda field: field[0]))


_NOTHING = object()  # what no field is


@dataclass(frozen=True, slots=True)
class _Stamp:
    """How items of a kind are written that say the same but for their names.

    content: equal for those. between: the other fields, before each name and behind the last.
    """

    content: Callable[[Mapping[str, Any]], Hashable]
    names: tuple[Field, ...]
    between: tuple[tuple[Field, ...], ...]


@lru_cache(maxsize=1024)
def _stamp(kind: type, fields: Fields) -> _Stamp | None:
    """None for what has no names."""
    names = getattr(kind, "naming", ())
    own = fields(kind) if names else None
    if own is None:
        return None
    between: list[list[Field]] = [[]]
    for field in own:
        if field[0] in names:
            between.append([])
        else:
            between[-1].append(field)
    rest = itemgetter(*[field[0] for field in own if field[0] not in names])
    return _Stamp(
        getattr(kind, "content", None) or (lambda item: tuple(map(id, rest(item)))),
        tuple([field for field in own if field[0] in names]),
        tuple([tuple(run) for run in between]),
    )


class _Writer:
    """fields: of a kind, in order. text: of other values. plain: of what there is most of."""

    def __init__(
        self,
        fields: Fields,
        text: Callable[[Any], str],
        plain: dict[type, Callable[[Any], str]],
    ) -> None:
        self._fields = fields
        self._text = text
        self._plain = plain
        # by identity of what a field holds, which lives as long as the document
        self._known: dict[int, str] = {}
        # by kind and content what stands between names; None of what was there once
        self._stamped: dict[type, dict[Hashable, tuple[str, ...] | None]] = {}

    def item(self, model: BaseModel) -> str:
        """A document, or one of a list, which is like no other."""
        fields = self._fields(type(model))
        if fields is None:
            return self._text(model.model_dump(mode="json", exclude_defaults=True))
        own, parts = model.__dict__, []
        for name, key, default in fields:
            value = own[name]
            if value is not default and value != default:
                parts.append(key + self._value(value))
        return f"{{{','.join(parts)}}}"

    def _value(self, value: Any) -> str:
        plain = self._plain.get(type(value))
        if plain is not None:
            return plain(value)
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = self._nested(value)
        return found

    def _nested(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return f"[{','.join(self._items(value))}]"
        if _is_model(type(value)):
            return self.item(value)
        if isinstance(value, dict) and any(_is_model(type(own)) for own in value.values()):
            pairs = [(self._text(str(key)), self.item(own)) for key, own in value.items()]
            if self._fields is _sorted_fields:
                pairs.sort()
            return f"{{{','.join([f'{key}:{text}' for key, text in pairs])}}}"
        return self._text(to_jsonable_python(value))

    def _items(self, items: Sequence[Any]) -> list[str]:
        kinds = {*map(type, items)}
        kind = kinds.pop() if len(kinds) == 1 else object
        stamp = _stamp(kind, self._fields)
        if stamp is None:
            return [self._element(item) for item in items]
        content, fill = stamp.content, self._filled
        known = self._stamped.setdefault(kind, {})
        found = []
        for item in items:
            own = item.__dict__
            key = content(own)
            between = known.get(key)
            if between is not None:
                found.append(fill(stamp.names, between, own))
                continue
            known[key] = self._between(stamp, own) if key in known else None
            found.append(self.item(item))
        return found

    def _between(self, stamp: _Stamp, own: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields with a comma before each, and behind them the name that is always written."""
        found = []
        for run, name in zip_longest(stamp.between, stamp.names):
            text = "".join(
                [
                    f",{key}{self._value(own[field])}"
                    for field, key, default in run
                    if own[field] is not default and own[field] != default
                ]
            )
            is_written = name is not None and name[2] is _NOTHING
            found.append(f"{text},{name[1]}" if is_written else text)
        return tuple(found)

    def _filled(
        self, names: Sequence[Field], between: tuple[str, ...], own: Mapping[str, Any]
    ) -> str:
        text, place = between[0], 1
        for name, key, default in names:
            value = own[name]
            if default is _NOTHING:
                text += self._name(value)
            elif value is not default and value != default:
                text += f",{key}{self._name(value)}"
            text += between[place]
            place += 1
        return f"{{{text[1:]}}}"

    def _name(self, value: Any) -> str:
        """One, or all of a list: each is another."""
        write = self._plain.get(type(value))
        return f"[{','.join(map(self._plain[str], value))}]" if write is None else write(value)

    def _element(self, value: Any) -> str:
        return self.item(value) if _is_model(type(value)) else self._value(value)


def _is_model(kind: type) -> bool:
    # isinstance would ask pydantic first, which takes longer than most of what is written
    return issubclass(kind, BaseModel)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _number(value: float) -> str:
    if not isfinite(value):
        raise ValueError(f"JSON has no number {value}")
    return repr(value)


_PLAIN: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    int: repr,
    float: _number,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}

_CANONICAL_ASCII = {**_PLAIN, float: canonical_json}

_CANONICAL = {**_CANONICAL_ASCII, str: canonical_json}
