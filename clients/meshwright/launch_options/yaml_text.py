"""Options as YAML: nested mappings of strings, numbers, booleans and lists."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping


def yaml_text(tree: Mapping[str, object]) -> str:
    return "\n".join(_lines(tree, "")) + "\n"


def options_of(text: str) -> dict[str, object]:
    """The options in a text of `yaml_text`; ValueError for any other line."""
    root: dict[str, object] = {}
    open_at: list[tuple[int, dict[str, object]]] = [(-1, root)]
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        indent = len(line) - len(line.lstrip())
        if not colon:
            raise ValueError(f"{line!r} is no option")
        while open_at[-1][0] >= indent:
            open_at.pop()
        if value:
            open_at[-1][1][key] = literal_eval(value.strip())
        else:
            section: dict[str, object] = {}
            open_at[-1][1][key] = section
            open_at.append((indent, section))
    return root


def _lines(tree: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, bool):
            yield f"{indent}{key}: {'True' if value else 'False'}"
        elif isinstance(value, str):
            yield f"{indent}{key}: '{value}'"
        else:
            yield f"{indent}{key}: {value}"
