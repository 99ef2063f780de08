"""Comparison of two plans as tables: totals side by side, then the ops that differ."""

from __future__ import annotations

from math import isclose

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_bytes, show_ns, show_share, signed
from meshwright.render.module_changes import render_modules
from meshwright.render.waterfall import render_waterfall
from meshwright.reports.comparison import compared_ns, part_name, step_parts
from meshwright.schema.comparison import ComparedOps, Comparison, PlanTotals
from meshwright.schema.cost import MEMORY_PARTS

MOST_CAUSES = 2  # chosen: parts that a sentence names
MOST_ROWS = 40  # chosen: the largest differences; JSON has all


def render_comparison(comparison: Comparison) -> RenderableType:
    """The verdict, totals of both plans, and the ops that differ."""
    parts: list[RenderableType] = [
        *([_requested(comparison)] if comparison.requested else []),
        _totals(comparison),
        *([render_waterfall(comparison)] if comparison.changes else []),
        *([render_modules(comparison)] if comparison.modules else []),
        _ops(comparison),
        Text(f"{comparison.alike} ops are alike."),
    ]
    verdict = _verdict(comparison)
    return Group(*([Text(verdict)] if verdict else []), *parts)


def _verdict(comparison: Comparison) -> str:
    """The faster plan: by how much, how likely, because of which parts, at which memory."""
    sides = comparison.first, comparison.second
    first, second = (compared_ns(totals, per_sample=comparison.per_sample) for totals in sides)
    if not first or not second or isclose(first, second, rel_tol=1e-9):
        return ""
    faster = "second" if second < first else "first"
    saved = 1 - min(first, second) / max(first, second)
    what = "takes less time for a sample" if comparison.per_sample else "has the shorter step"
    text = f"The {faster} plan {what}, by {show_share(saved)}"
    likely = comparison.second_shorter
    if likely is not None:
        text += f", with probability {likely if faster == 'second' else 1 - likely:.2f}"
    sign = 1 if faster == "first" else -1
    causes = [change for change in comparison.changes if change.ns * sign > 0][:MOST_CAUSES]
    if causes:
        text += ": " + ", ".join(f"{show_ns(abs(c.ns))} less of {c.part}" for c in causes)
    spare = comparison.second.memory_total_bytes - comparison.first.memory_total_bytes
    spare *= 1 if faster == "second" else -1
    if spare:
        text += f". It needs {show_bytes(abs(spare))} {'more' if spare > 0 else 'less'} memory"
    return text + "."


def _requested(comparison: Comparison) -> Table:
    table = Table(
        title="\nRequested differently", title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in ("option", "first", "second"):
        table.add_column(column, overflow="fold")
    for difference in comparison.requested:
        table.add_row(difference.option, difference.first, difference.second)
    return table


def _totals(comparison: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("", "first", "second", "second − first"):
        table.add_column(column, justify="left" if not column else "right", overflow="fold")
    first, second = comparison.first, comparison.second
    for name, a, b in (
        ("name", first.name or first.plan[:17], second.name or second.plan[:17]),
        ("graph", first.graph[:14], second.graph[:14]),
        ("topology", first.topology[:13], second.topology[:13]),
        ("mesh", _meshes(first), _meshes(second)),
        ("microbatches", str(first.microbatches), str(second.microbatches)),
        ("schedule", first.schedule or "none", second.schedule or "none"),
        ("recompute", ", ".join(first.recompute) or "none", ", ".join(second.recompute) or "none"),
    ):
        table.add_row(name, a, b, "" if a == b else "differs")
    for name, x, y in _times(first, second):
        table.add_row(name, show_ns(x), show_ns(y), signed(y - x, show_ns(abs(y - x))))
    for name, m, n in _bytes(first, second):
        table.add_row(name, show_bytes(m), show_bytes(n), signed(n - m, show_bytes(abs(n - m))))
    return table


def _times(first: PlanTotals, second: PlanTotals) -> list[tuple[str, float, float]]:
    sides = step_parts(first), step_parts(second)
    times = [("step", first.step_ns, second.step_ns)]
    for part in dict.fromkeys((*sides[0], *sides[1])):
        times.append((part_name(part), sides[0].get(part, 0.0), sides[1].get(part, 0.0)))
    return [row for row in times if row[1] or row[2]]


def _bytes(first: PlanTotals, second: PlanTotals) -> list[tuple[str, int, int]]:
    fields = *(part for part in MEMORY_PARTS if part != "reserved"), "host"
    rows = [("memory", first.memory_total_bytes, second.memory_total_bytes)]
    for field in fields:
        a, b = getattr(first.memory_bytes, field), getattr(second.memory_bytes, field)
        if a or b:
            rows.append((f"  {field}", a, b))
    return rows


def _ops(comparison: Comparison) -> Table:
    table = Table(
        title="\nOps that differ", title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in ("op", "differing", "first", "second", "compute", "communication"):
        right = column in ("compute", "communication")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for difference in comparison.differences[:MOST_ROWS]:
        count = f" ×{difference.count}" if difference.count > 1 else ""
        table.add_row(
            difference.label + count,
            ", ".join(difference.differing),
            _side(difference.first),
            _side(difference.second),
            _difference_text(
                [
                    0.0 if side is None else side.compute_ns
                    for side in (difference.first, difference.second)
                ]
            ),
            _difference_text(
                [
                    0.0 if side is None else side.communication_ns
                    for side in (difference.first, difference.second)
                ]
            ),
        )
    left = len(comparison.differences) - MOST_ROWS
    if left > 0:
        table.add_row(f"and {left} more", "", "", "", "", "")
    return table


def _side(ops: ComparedOps | None) -> str:
    if ops is None:
        return "—"
    parts = [f"{factor}@{'@'.join(axes)}" for factor, axes in ops.strategy.items()]
    parts += [f"+{axis}" for axis in ops.partial]
    parts += [f"?{axis}" for axis in ops.followers]
    return " ".join(parts) or "replicated"


def _meshes(totals: PlanTotals) -> str:
    return "; ".join(
        " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes) for mesh in totals.meshes
    )


def _difference_text(times: list[float]) -> str:
    difference = times[1] - times[0]
    return signed(difference, show_ns(abs(difference)))
