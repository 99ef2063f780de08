"""What a plan does again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from meshwright.schema import Plan


def recompute_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Stages that do the same in a row are one line; nothing where nothing is done again."""
    said = [_said(plan, number) for number in range(len(plan.stages))]
    if not any(said):
        return
    numbers = iter(range(len(said)))
    label = "recompute"
    for text, alike in groupby(said):
        own = [next(numbers) for _ in alike]
        where = f"stages {own[0]}-{own[-1]}: " if len(own) > 1 else f"stage {own[0]}: "
        yield label, (where if len(said) > 1 else "") + (text or "nothing")
        label = ""


def _said(plan: Plan, number: int) -> str:
    again = plan.stages[number].recompute
    if again is None:
        return ""
    kinds = {op.op: op.kind for op in plan.stages[number].ops}
    largest = max(again.segments, key=lambda own: len(own.again))
    named = ", ".join(dict.fromkeys(kinds[op] for op in largest.again))
    return (
        f"{again.policy}: of {len(again.segments)} segments of up to {len(largest.ops)} ops, "
        f"{len(largest.again)} each ({named})"
    )
