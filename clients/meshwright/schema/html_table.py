"""Tables of HTML that notebooks show for documents."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def html_table(title: str, rows: Iterable[tuple[str, str]], notes: Iterable[str] = ()) -> str:
    """A table of names and values below a title, and notes below it. All text is escaped."""
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows
    )
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    below = f"<ul>{items}</ul>" if items else ""
    return f"<table><caption>{escape(title)}</caption>{cells}</table>{below}"
