"""Wishes of a request as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.schema import Wishes


def wish_texts(wishes: Wishes) -> list[str]:
    """The wishes that differ from the default, without pins."""
    values = wishes.model_dump(mode="json", exclude_defaults=True, exclude={"pins"})
    return [text for name, value in values.items() for text in _wish_texts(name, value)]


def _wish_texts(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for field, item in value.items():
            yield from _wish_texts(f"{name} {field}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield f"{name} {', '.join(map(str, value))}"
    else:
        yield f"{name} {_text(value)}"


def _text(value: object) -> str:
    if value is None:
        return "auto"  # the search chooses a value only on request, such as pipeline ranks
    return str(value).lower() if isinstance(value, bool) else str(value)
