"""What a plan was asked to be, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.inspecting.wishes import wish_texts
from meshwright.schema import Wishes


def wish_rows(wishes: Wishes) -> Iterator[tuple[str, str]]:
    """What was asked for, then every pin as people type it."""
    texts = wish_texts(wishes)
    if texts:
        yield "asked", "; ".join(texts)
    for place, pin in enumerate(wishes.pins):
        yield "" if place else "pins", str(pin)
