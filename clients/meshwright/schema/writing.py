"""Documents as JSON text, without fields at their default; what items share is written once.

The text is that of `model_dump(mode="json", exclude_defaults=True)`: a plan of a large graph says
the same layouts of thousands of tensors, and would be ten times as large as it is as a tree of
Python's dicts.
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


def written(document: BaseModel) -> str:
    """The document as compact JSON text; ValueError for a number that JSON does not have."""
    return _Writer().item(document)


@lru_cache(maxsize=1024)
def _fields(kind: type[BaseModel]) -> tuple[tuple[str, str, Any], ...] | None:
    """Of every field the name, the name as it is written, and its default; None: it knows best."""
    if kind.__pydantic_decorators__.model_serializers:
        return None
    return tuple(
        (name, _text(name) + ":", field.get_default(call_default_factory=True))
        if not field.is_required()
        else (name, _text(name) + ":", _NOTHING)
        for name, field in kind.model_fields.items()
    )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_NOTHING = object()  # what no field is


class _Writer:
    def __init__(self) -> None:
        # by identity of what a field holds, which lives as long as the document
        self._known: dict[int, str] = {}

    def item(self, model: BaseModel) -> str:
        """A document, or one of a list, which is like no other."""
        fields = _fields(type(model))
        if fields is None:
            return _text(model.model_dump(mode="json", exclude_defaults=True))
        own = model.__dict__
        parts = [
            key + self._value(own[name])
            for name, key, default in fields
            if own[name] is not default and own[name] != default
        ]
        return f"{{{','.join(parts)}}}"

    def _value(self, value: Any) -> str:
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(value)
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = self._nested(value)
        return found

    def _nested(self, value: Any) -> str:
        if isinstance(value, BaseModel):
            return self.item(value)
        if isinstance(value, (tuple, list)):
            return f"[{','.join([self._element(item) for item in value])}]"
        if isinstance(value, dict) and all(type(key) is str for key in value):
            pairs = [f"{encode_basestring(k)}:{self._element(own)}" for k, own in value.items()]
            return f"{{{','.join(pairs)}}}"
        return _text(to_jsonable_python(value))

    def _element(self, value: Any) -> str:
        return self.item(value) if isinstance(value, BaseModel) else self._value(value)


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
