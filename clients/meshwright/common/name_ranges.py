"""Folding of repeated names: names that differ only in numbers form one line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
NUMBER = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")
_BLOCK_PART = re.compile(r"(?:[^.*]+\.)*(?:\*\.)*\*\.[^.]+")


@dataclass(frozen=True, slots=True)
class Repeat(Generic[T]):
    """Equal items: `label` is the common name, `items` are in order."""

    label: str
    items: tuple[T, ...]

    @property
    def first(self) -> T:
        return self.items[0]

    @property
    def count(self) -> int:
        return len(self.items)


def pattern(name: str) -> str:
    """A name with `*` in place of every number: `layers.3.norm` becomes `layers.*.norm`."""
    return NUMBER.sub("*", name)


def block_part(name: str) -> str:
    """The part of a repeated block that a module belongs to, or the name of a module outside.

    `layers.3.mlp.up_proj` belongs to `layers.3.mlp`, `stages.0.1.conv.weight` to `stages.0.1.conv`.
    """
    match = _BLOCK_PART.match(pattern(name))
    depth = name.count(".") if match is None else match.group(0).count(".")
    return ".".join(name.split(".")[: depth + 1])


def fold(items: Iterable[tuple[str, Hashable, T]]) -> list[Repeat[T]]:
    """Fold triples (name, meaning, item) by meaning, in the order of first appearance.

    The label lists the numbers if a meaning holds for some names of a pattern only.
    """
    groups: dict[tuple[str, Hashable], list[tuple[str, T]]] = {}
    for name, meaning, item in items:
        groups.setdefault((pattern(name), meaning), []).append((name, item))
    names: dict[str, set[str]] = {}
    for (shape, _), members in groups.items():
        names.setdefault(shape, set()).update(name for name, _ in members)
    return [
        Repeat(
            _label(shape, {name for name, _ in members}, names[shape]),
            tuple(item for _, item in members),
        )
        for (shape, _), members in groups.items()
    ]


def _label(shape: str, names: set[str], alike: set[str]) -> str:
    """The label of `names`; `alike` are all names of the pattern, with any meaning."""
    if len(names) == 1:
        return next(iter(names))
    if names == alike:
        return shape
    columns = zip(*(NUMBER.findall(name) for name in names), strict=True)
    shown = iter([_ranges(sorted({int(number) for number in column})) for column in columns])
    return "".join(next(shown) if part == "*" else part for part in re.split(r"(\*)", shape))


def _ranges(numbers: list[int]) -> str:
    """Numbers as ranges: `[0, 1, 2, 5]` becomes `{0-2,5}`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return shown if len(spans) == 1 and spans[0][0] == spans[0][1] else f"{{{shown}}}"
