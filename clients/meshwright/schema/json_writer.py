"""The JSON writer of documents. It skips fields at their default and encodes shared parts once.

A plan of a large graph repeats the same layouts for thousands of tensors. As a tree of Python dicts
it would be ten times as large and take ten times as long. List items that differ in their names
only (`Model.naming`) share one template. The texts are those of
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
    """The document as compact JSON text; raises ValueError for a number that is not finite."""
    return _Writer(_fields, _text, _PLAIN).item(document)


def written_canonically(document: BaseModel) -> str:
    """`canonical_json` of the document."""
    # ASCII text has one Unicode form, so that the faster encoder is exact
    text = _Writer(_sorted_fields, canonical_json, _CANONICAL_ASCII).item(document)
    if text.isascii():
        return text
    return _Writer(_sorted_fields, canonical_json, _CANONICAL).item(document)


@lru_cache(maxsize=1024)
def _fields(kind: type[BaseModel]) -> tuple[Field, ...] | None:
    """The fields of a model in their order; None if the model has its own serializer."""
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


_NOTHING = object()  # the default of a required field: unequal to every value


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The template of items that differ in their names only.

    `content` is a key that is equal for such items. `between` lists the other fields, before each
    name and after the last.
    """

    content: Callable[[Mapping[str, Any]], Hashable]
    names: tuple[Field, ...]
    between: tuple[tuple[Field, ...], ...]


@lru_cache(maxsize=1024)
def _stamp(kind: type, fields: Fields) -> _Stamp | None:
    """The template of a kind of item; None if the kind has no names."""
    names = getattr(kind, "naming", ())
    layout = fields(kind) if names else None
    if layout is None:
        return None
    between: list[list[Field]] = [[]]
    for field in layout:
        if field[0] in names:
            between.append([])
        else:
            between[-1].append(field)
    rest = itemgetter(*[field[0] for field in layout if field[0] not in names])
    return _Stamp(
        getattr(kind, "content", None) or (lambda item: tuple(map(id, rest(item)))),
        tuple([field for field in layout if field[0] in names]),
        tuple([tuple(run) for run in between]),
    )


class _Writer:
    """A JSON writer of one document.

    `fields` gives the fields of a model in order. `plain` encodes the most frequent types of
    values, `text` all other values.
    """

    def __init__(
        self,
        fields: Fields,
        text: Callable[[Any], str],
        plain: dict[type, Callable[[Any], str]],
    ) -> None:
        self._fields = fields
        self._text = text
        self._plain = plain
        # the text of each value by its identity; values live as long as the document
        self._known: dict[int, str] = {}
        # the texts between names by kind and content; None for content that occurred once
        self._templates: dict[type, dict[Hashable, tuple[str, ...] | None]] = {}

    def item(self, model: BaseModel) -> str:
        """The text of a document or of another model."""
        fields = self._fields(type(model))
        if fields is None:
            return self._text(model.model_dump(mode="json", exclude_defaults=True))
        values, parts = model.__dict__, []
        for name, key, default in fields:
            value = values[name]
            if value is not default and value != default:
                parts.append(key + self._value(value))
        return f"{{{','.join(parts)}}}"

    def _value(self, value: Any) -> str:
        plain = self._plain.get(type(value))
        if plain is not None:
            return plain(value)
        text = self._known.get(id(value))
        if text is None:
            text = self._known[id(value)] = self._nested(value)
        return text

    def _nested(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return f"[{','.join(self._items(value))}]"
        if _is_model(type(value)):
            return self.item(value)
        if isinstance(value, dict) and any(_is_model(type(item)) for item in value.values()):
            pairs = [(self._text(str(key)), self.item(item)) for key, item in value.items()]
            if self._fields is _sorted_fields:
                pairs.sort()
            return f"{{{','.join([f'{key}:{text}' for key, text in pairs])}}}"
        return self._text(to_jsonable_python(value))

    def _items(self, items: Sequence[Any]) -> list[str]:
        kinds = {*map(type, items)}
        kind = kinds.pop() if len(kinds) == 1 else object
        if (plain := self._plain.get(kind)) is not None:
            return [plain(item) for item in items]
        stamp = _stamp(kind, self._fields)
        if stamp is None:
            return [self._element(item) for item in items]
        content, fill = stamp.content, self._fill
        known = self._templates.setdefault(kind, {})
        texts = []
        for item in items:
            values = item.__dict__
            key = content(values)
            between = known.get(key)
            if between is not None:
                texts.append(fill(stamp.names, between, values))
                continue
            known[key] = self._between(stamp, values) if key in known else None
            texts.append(self.item(item))
        return texts

    def _between(self, stamp: _Stamp, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts between names: fields with a leading comma, then the key of a required name."""
        texts = []
        for run, name in zip_longest(stamp.between, stamp.names):
            text = "".join(
                [
                    f",{key}{self._value(values[field])}"
                    for field, key, default in run
                    if values[field] is not default and values[field] != default
                ]
            )
            is_required = name is not None and name[2] is _NOTHING
            texts.append(f"{text},{name[1]}" if is_required else text)
        return tuple(texts)

    def _fill(
        self, names: Sequence[Field], between: tuple[str, ...], values: Mapping[str, Any]
    ) -> str:
        text, place = between[0], 1
        for name, key, default in names:
            value = values[name]
            if default is _NOTHING:
                text += self._name(value)
            elif value is not default and value != default:
                text += f",{key}{self._name(value)}"
            text += between[place]
            place += 1
        return f"{{{text[1:]}}}"

    def _name(self, value: Any) -> str:
        """The text of a name or of a list of names, without the cache of values."""
        write = self._plain.get(type(value))
        return f"[{','.join(map(self._plain[str], value))}]" if write is None else write(value)

    def _element(self, value: Any) -> str:
        return self.item(value) if _is_model(type(value)) else self._value(value)


def _is_model(kind: type) -> bool:
    # isinstance would call pydantic's metaclass, which takes longer than most encodings
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


def _canonical_number(value: float) -> str:
    """As `canonical_json` has it, in a tenth of the time."""
    if not isfinite(value):
        return canonical_json(value)
    return repr(int(value) if value.is_integer() and abs(value) < 2**53 else value)


_CANONICAL_ASCII = {**_PLAIN, float: _canonical_number}

_CANONICAL = {**_CANONICAL_ASCII, str: canonical_json}
