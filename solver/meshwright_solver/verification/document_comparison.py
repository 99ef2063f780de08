"""Comparison of plan documents, field by field: the stated one against the evaluator's.

Numbers may differ by rounding. Every other field must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from meshwright.schema import Model, PlanError

M = TypeVar("M", bound=Model)
ROUNDING = 1e-9  # chosen: the same sums in another order


def compare_items(
    stated: Iterable[M], judged: Iterable[M], key: Callable[[M], Hashable], what: str
) -> None:
    """Compare items by their keys, in any order; PlanError at the first difference."""
    known = {key(item): item for item in judged}
    seen = set()
    for item in stated:
        name = key(item)
        if name in seen:
            raise PlanError(f"the plan has the {what} {_name_text(name)} twice")
        seen.add(name)
        if name not in known:
            raise PlanError(f"the plan has the {what} {_name_text(name)}, its layouts need none")
        compare(item, known[name], f"{what} {_name_text(name)}")
    for name in known:
        if name not in seen:
            raise PlanError(f"the plan lacks the {what} {_name_text(name)}, which its layouts need")


def _name_text(name: Hashable) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    return " ".join(repr(part) for part in parts if isinstance(part, str))


def compare(stated: object, judged: object, where: str) -> None:
    """Compare two values at any depth; PlanError at the first difference."""
    if isinstance(stated, Model) and isinstance(judged, Model):
        expected = dict(judged)
        for name, value in stated:
            compare(value, expected[name], f"{where}.{name}")
    elif isinstance(stated, Mapping) and isinstance(judged, Mapping):
        both = {**stated, **judged}
        # a time that is left out is 0
        default = 0.0 if any(isinstance(value, float) for value in both.values()) else None
        for name in both:
            compare(stated.get(name, default), judged.get(name, default), f"{where}.{name}")
    elif isinstance(stated, tuple) and isinstance(judged, tuple) and len(stated) == len(judged):
        for index, (value, other) in enumerate(zip(stated, judged, strict=True)):
            compare(value, other, f"{where}[{index}]")
    elif _differ(stated, judged):
        raise PlanError(f"the plan says {where} {_text(stated)}, evaluate says {_text(judged)}")


def _differ(stated: object, judged: object) -> bool:
    if isinstance(stated, bool) or isinstance(judged, bool):
        return stated is not judged
    if isinstance(stated, int | float) and isinstance(judged, int | float):
        return abs(stated - judged) > ROUNDING * max(abs(stated), abs(judged))
    return stated != judged


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return (
            f"{len(value)} entries" if any(isinstance(v, Model) for v in value) else str([*value])
        )
    return str(value)
