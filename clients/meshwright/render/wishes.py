"""Wishes of a request as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.reports.wishes import wish_texts
from meshwright.schema import Wishes


def wish_rows(wishes: Wishes) -> Iterator[tuple[str, str]]:
    """The wishes, then every pin in command-line syntax."""
    texts = wish_texts(wishes)
    if texts:
        yield "asked", "; ".join(texts)
    for place, pin in enumerate(wishes.pins):
        yield "" if place else "pins", str(pin)
