"""Brief representations: one line for a value of any size, for debuggers and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MAX_LENGTH = 390  # characters of a representation; chosen
MAX_VALUE = 80  # characters of a field's value; chosen


class Verbatim(str):
    """A string whose representation is the string, for printers of values (`rich.pretty`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def brief(name: str, fields: Iterable[tuple[str, Any]]) -> str:
    """The representation of a call of `name` with its fields, truncated to MAX_LENGTH."""
    arguments = ", ".join(f"{field}={brief_value(value)}" for field, value in fields)
    return clipped(f"{name}({arguments})", MAX_LENGTH)


def brief_value(value: object) -> str:
    """The representation of a value: the value if it is short, otherwise its type and length."""
    if isinstance(value, tuple | list | set | frozenset | Mapping):
        if len(value) > 4:
            return f"<{type(value).__name__} of {len(value):,}>"
        text = repr(value) if _is_plain(value) else ""
        is_short = text and len(text) <= MAX_VALUE
        return text if is_short else f"<{type(value).__name__} of {len(value):,}>"
    if isinstance(value, str):
        return repr(clipped(value, MAX_VALUE))
    return clipped(repr(value), MAX_LENGTH - 120)


def clipped(text: str, length: int) -> str:
    """The text, truncated to `length` characters with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _is_plain(values: Iterable[object]) -> bool:
    """Whether the items are numbers, strings, or short tuples of these."""
    pairs = values.items() if isinstance(values, Mapping) else values
    return all(
        isinstance(item, str | int | float | None)
        or (isinstance(item, tuple) and len(item) <= 4 and _is_plain(item))
        for item in pairs
    )
