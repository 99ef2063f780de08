"""Documents as JSON text, without fields at their default; what items share is written once.

A plan of a large graph says the same layouts of thousands of tensors: as a tree of Python's dicts
it would be ten times as large, and take ten times as long. The texts are those of
`model_dump(mode="json", exclude_defaults=True)`, as it is or in canonical form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from meshwright.schema.canonical import canonical_json

Field = tuple[str, str, Any]  # name, name as it is written, default


def written(document: BaseModel) -> str:
    """The document as compact JSON text; ValueError for a number that JSON does not have."""
    return _Writer(_fields, _text, _PLAIN).item(document)


def written_canonically(document: BaseModel) -> str:
    """`canonical_json` of the document."""
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


class _Writer:
    """fields: of a kind, in order. text: of other values. plain: of what there is most of."""

    def __init__(
        self,
        fields: Callable[[type[BaseModel]], tuple[Field, ...] | None],
        text: Callable[[Any], str],
        plain: dict[type, Callable[[Any], str]],
    ) -> None:
        self._fields = fields
        self._text = text
        self._plain = plain
        # by identity of what a field holds, which lives as long as the document
        self._known: dict[int, str] = {}

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
            return f"[{','.join([self._element(item) for item in value])}]"
        if _is_model(type(value)):
            return self.item(value)
        if isinstance(value, dict) and any(_is_model(type(own)) for own in value.values()):
            pairs = [(self._text(str(key)), self.item(own)) for key, own in value.items()]
            if self._fields is _sorted_fields:
                pairs.sort()
            return f"{{{','.join([f'{key}:{text}' for key, text in pairs])}}}"
        return self._text(to_jsonable_python(value))

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

_CANONICAL = {
    **_PLAIN,
    str: lambda value: encode_basestring(value) if value.isascii() else canonical_json(value),
    float: canonical_json,
}
