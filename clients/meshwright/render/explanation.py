"""Explanations as tables: the alternatives of every kind of op."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_bytes, show_ns
from meshwright.schema.explanation import Alternative, ExplainedOps, Explanation

MOST_ROWS = 25  # chosen: the best alternatives; JSON has all


def render_explanation(explanation: Explanation) -> RenderableType:
    """The plan's cost, its memory price, and the alternatives of every kind of op."""
    memory = explanation.memory
    lines = [
        f"step {show_ns(explanation.whole.step_ns)}, objective "
        f"{show_ns(explanation.whole.objective_ns)}, {show_bytes(memory.used_bytes)} of "
        f"{show_bytes(memory.capacity_bytes)}"
        + (f"; stage {explanation.stage} alone" if explanation.stage else ""),
        memory.why,
        *explanation.notes,
    ]
    if not explanation.complete:
        lines.append(f"{explanation.seconds:g} s were not enough for all; --seconds gives more")
    return Group(Text("\n".join(lines)), *(_group(ops) for ops in explanation.groups))


def _group(ops: ExplainedOps) -> RenderableType:
    table = Table(
        title=f"\n{ops.label}: {ops.kind}, {ops.rule or 'no rule'}",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in ("strategy", "verdict", "compute", "own moves", "step", "memory", "why"):
        right = column in ("compute", "own moves", "step", "memory")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    shown = [
        alternative
        for alternative in ops.alternatives
        if alternative.verdict not in ("not solved", "not allowed")
    ]
    for alternative in shown[:MOST_ROWS]:
        table.add_row(
            _strategy(alternative),
            alternative.verdict,
            show_ns(alternative.compute_ns),
            show_ns(alternative.communication_ns),
            "" if alternative.whole is None else show_ns(alternative.whole.step_ns),
            "" if alternative.whole is None else show_bytes(alternative.whole.memory_bytes),
            alternative.why,
        )
    left = {
        verdict: sum(alternative.verdict == verdict for alternative in ops.alternatives)
        for verdict in ("not solved", "not allowed")
    }
    omitted = [f"{count} {verdict}" for verdict, count in left.items() if count]
    if len(shown) > MOST_ROWS:
        omitted.insert(0, f"{len(shown) - MOST_ROWS} dearer ones")
    if omitted:
        table.add_row(f"and {', '.join(omitted)}", "", "", "", "", "", "")
    pins = [Text(f"pin {price.pin}: {price.why}") for price in ops.pins]
    return Group(table, *pins)


def _strategy(alternative: Alternative) -> str:
    parts = [f"{factor}@{'@'.join(axes)}" for factor, axes in alternative.strategy.items() if axes]
    parts += [f"+{axis}" for axis in alternative.partial]
    parts += [f"?{axis}" for axis in alternative.followers]
    return " ".join(parts) or "replicated"
