"""What a plan was asked to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.schema import Wishes


def wish_rows(wishes: Wishes) -> Iterator[tuple[str, str]]:
    """Rows of a table: all that was not left as it is by default, then every pin as people type
    it."""
    said = wishes.model_dump(mode="json", exclude_defaults=True, exclude={"pins"})
    texts = [text for name, value in said.items() for text in _said(name, value)]
    if texts:
        yield "asked", "; ".join(texts)
    for place, pin in enumerate(wishes.pins):
        yield "" if place else "pins", str(pin)


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
