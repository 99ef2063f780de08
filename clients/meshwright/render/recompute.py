"""Activation recomputation of a plan as rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from meshwright.schema import Plan


def recompute_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Recomputation by stage, with equal adjacent stages merged; none without recomputation."""
    texts = [_stage_text(plan, number) for number in range(len(plan.stages))]
    if not any(texts):
        return
    numbers = iter(range(len(texts)))
    label = "recompute"
    for text, group in groupby(texts):
        stages = [next(numbers) for _ in group]
        prefix = f"stages {stages[0]}-{stages[-1]}: " if len(stages) > 1 else f"stage {stages[0]}: "
        yield label, (prefix if len(texts) > 1 else "") + (text or "nothing")
        label = ""


def _stage_text(plan: Plan, number: int) -> str:
    recompute = plan.stages[number].recompute
    if recompute is None:
        return ""
    kinds = {op.op: op.kind for op in plan.stages[number].ops}
    largest = max(recompute.segments, key=lambda segment: len(segment.again))
    kind_names = ", ".join(dict.fromkeys(kinds[op] for op in largest.again))
    return (
        f"{recompute.policy}: of {len(recompute.segments)} segments of up to {len(largest.ops)} "
        f"ops, {len(largest.again)} each ({kind_names})"
    )
