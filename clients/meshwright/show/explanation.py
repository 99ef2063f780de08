"""An explanation for people: a table of alternatives for every kind of op."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.schema.explanation import Alternative, ExplainedOps, Explanation
from meshwright.units import show_bytes, show_ns

MOST_ROWS = 25  # chosen: a person reads the best; JSON has all


def render_explanation(made: Explanation) -> RenderableType:
    """What the plan is, what its memory costs, and the alternatives of every kind of op."""
    memory = made.memory
    lines = [
        f"step {show_ns(made.whole.step_ns)}, objective {show_ns(made.whole.objective_ns)}, "
        f"{show_bytes(memory.used_bytes)} of {show_bytes(memory.capacity_bytes)}"
        + (f"; stage {made.stage} alone" if made.stage else ""),
        memory.why,
        *made.notes,
    ]
    if not made.complete:
        lines.append(f"{made.seconds:g} s were not enough for all; --seconds gives more")
    return Group(Text("\n".join(lines)), *(_group(own) for own in made.groups))


def _group(own: ExplainedOps) -> RenderableType:
    table = Table(
        title=f"\n{own.label}: {own.kind}, {own.rule or 'no rule'}",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in ("strategy", "verdict", "compute", "own moves", "step", "memory", "why"):
        right = column in ("compute", "own moves", "step", "memory")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    shown = [one for one in own.alternatives if one.verdict not in ("not solved", "not allowed")]
    for one in shown[:MOST_ROWS]:
        table.add_row(
            _strategy(one),
            one.verdict,
            show_ns(one.compute_ns),
            show_ns(one.communication_ns),
            "" if one.whole is None else show_ns(one.whole.step_ns),
            "" if one.whole is None else show_bytes(one.whole.memory_bytes),
            one.why,
        )
    left = {
        verdict: sum(one.verdict == verdict for one in own.alternatives)
        for verdict in ("not solved", "not allowed")
    }
    said = [f"{count} {verdict}" for verdict, count in left.items() if count]
    if len(shown) > MOST_ROWS:
        said.insert(0, f"{len(shown) - MOST_ROWS} dearer ones")
    if said:
        table.add_row(f"and {', '.join(said)}", "", "", "", "", "", "")
    pins = [Text(f"pin {price.pin}: {price.why}") for price in own.pins]
    return Group(table, *pins)


def _strategy(one: Alternative) -> str:
    parts = [f"{factor}@{'@'.join(axes)}" for factor, axes in one.strategy.items() if axes]
    parts += [f"+{axis}" for axis in one.partial]
    parts += [f"?{axis}" for axis in one.followers]
    return " ".join(parts) or "replicated"
