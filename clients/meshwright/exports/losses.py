"""Losses of an export: the missing parts of a plan, grouped for people to read.

The parts of a plan are named line by line, as `model.layers.*.self_attn.q_proj (80 of them): gpu
cuts the sequence of it`, or `tensor 'model.norm' (gradient): ...`. Lines that state the same of
several names form one loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import Field

from meshwright.common.name_ranges import pattern
from meshwright.schema import Model

_LINE = re.compile(
    r"(?:(?:tensor|op|parameter) '(?P<quoted>[^']+)'(?: \([a-z ]+\))?"
    r"|(?P<name>\S+?)(?: \((?P<count>\d+) of them\))?): (?P<what>.+)",
    re.DOTALL,
)
_QUOTED = re.compile(r"'[^']+'")


class Loss(Model):
    """Parts of a plan that an export does not state, or states differently in the same way."""

    what: str = Field(description="The strategy or layout in the plan, or the reason.")
    names: tuple[str, ...] = Field(
        default=(),
        description="Patterns of the names, those of one module in braces. Empty: the whole plan.",
    )
    count: int = Field(default=0, description="The number of ops, tensors or parameters.")


def losses_of(missing: Iterable[str]) -> tuple[Loss, ...]:
    """The losses in the order of their first lines; lines that repeat count once."""
    counts: dict[str, dict[str, int]] = {}  # what -> pattern -> names
    for line in dict.fromkeys(missing):
        match = _LINE.fullmatch(line)
        if match is None:
            counts.setdefault(folded(line), {})
            continue
        names = counts.setdefault(folded(match["what"]), {})
        name = match["quoted"] or match["name"]
        names[pattern(name)] = names.get(pattern(name), 0) + int(match["count"] or 1)
    return tuple(
        Loss(what=what, names=_by_module(names), count=sum(names.values()))
        for what, names in counts.items()
    )


def folded(line: str) -> str:
    """A sentence with `*` in place of the numbers in its quoted names."""
    return _QUOTED.sub(lambda quoted: f"'{pattern(quoted[0][1:-1])}'", line)


def _by_module(names: Iterable[str]) -> tuple[str, ...]:
    """Names with those of one module in braces: `layers.*.attention.{q_proj, k_proj}`."""
    modules: dict[str, list[str]] = {}
    for name in names:
        module, _, last = name.rpartition(".")
        modules.setdefault(module, []).append(last)
    return tuple(name for module, children in modules.items() for name in _joined(module, children))


def _joined(module: str, children: list[str]) -> list[str]:
    if not module or len(children) == 1:
        return [f"{module}.{child}" if module else child for child in children]
    return [f"{module}.{{{', '.join(children)}}}"]
