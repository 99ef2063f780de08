"""Options as YAML: nested mappings of strings, numbers and booleans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def yaml_text(tree: Mapping[str, object]) -> str:
    return "\n".join(_lines(tree, "")) + "\n"


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
