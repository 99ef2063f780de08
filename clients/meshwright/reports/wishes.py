"""Options of a request as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.schema import Wishes


def wish_texts(wishes: Wishes) -> list[str]:
    """The wishes that differ from the default, without pins."""
    return [f"{name} {value}" for name, value in wish_values(wishes)]


def wish_values(wishes: Wishes) -> Iterator[tuple[str, str]]:
    """The wishes that differ from the default, without pins, each with its value as text."""
    return option_values(
        wishes.model_dump(mode="json", exclude_defaults=True, exclude={"pins"}), ""
    )


def option_values(values: Mapping[str, object], within: str) -> Iterator[tuple[str, str]]:
    """The options of a JSON object with their values as text.

    A nested option has the names on its way, separated by blanks, after those of `within`.
    """
    for field, value in values.items():
        name = f"{within} {field}".strip()
        if isinstance(value, Mapping):
            yield from option_values(value, name)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield name, ", ".join(map(str, value))
        else:
            yield name, _text(value)


def _text(value: object) -> str:
    if value is None:
        return "auto"  # the search chooses a value only on request, such as pipeline ranks
    return str(value).lower() if isinstance(value, bool) else str(value)
