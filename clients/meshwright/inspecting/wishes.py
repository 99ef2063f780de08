"""What a plan was asked to be, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.schema import Wishes


def wish_texts(wishes: Wishes) -> list[str]:
    """All but the pins that was not left as it is by default."""
    said = wishes.model_dump(mode="json", exclude_defaults=True, exclude={"pins"})
    return [text for name, value in said.items() for text in _said(name, value)]


def _said(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for field, own in value.items():
            yield from _said(f"{name} {field}", own)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield f"{name} {', '.join(map(str, value))}"
    else:
        yield f"{name} {_plain(value)}"


def _plain(value: object) -> str:
    if value is None:
        return "auto"  # of what a search chooses only where it is asked to: ranks of a pipeline
    return str(value).lower() if isinstance(value, bool) else str(value)
