"""A comparison for people: totals beside each other, then the ops that differ."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.schema.comparison import ComparedOps, Comparison, PlanTotals
from meshwright.units import show_bytes, show_ns

MOST_ROWS = 40  # chosen: a person reads the largest; JSON has all


def render_comparison(made: Comparison) -> RenderableType:
    """Totals of both plans, and the ops that differ."""
    return Group(_totals(made), _ops(made), Text(f"{made.alike} ops are alike."))


def _totals(made: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("", "first", "second", "second − first"):
        table.add_column(column, justify="left" if not column else "right", overflow="fold")
    one, other = made.first, made.second
    for name, a, b in (
        ("name", one.name or one.plan[:17], other.name or other.plan[:17]),
        ("graph", one.graph[:14], other.graph[:14]),
        ("topology", one.topology[:13], other.topology[:13]),
        ("mesh", _meshes(one), _meshes(other)),
        ("microbatches", str(one.microbatches), str(other.microbatches)),
        ("schedule", one.schedule or "none", other.schedule or "none"),
        ("recompute", ", ".join(one.recompute) or "none", ", ".join(other.recompute) or "none"),
    ):
        table.add_row(name, a, b, "" if a == b else "differs")
    for name, x, y in _times(one, other):
        table.add_row(name, show_ns(x), show_ns(y), _signed(y - x, show_ns(abs(y - x))))
    for name, m, n in _bytes(one, other):
        table.add_row(name, show_bytes(m), show_bytes(n), _signed(n - m, show_bytes(abs(n - m))))
    return table


def _times(one: PlanTotals, other: PlanTotals) -> list[tuple[str, float, float]]:
    found = [
        ("step", one.step_ns, other.step_ns),
        ("compute", one.compute_ns, other.compute_ns),
        ("bubble", one.bubble_ns, other.bubble_ns),
    ]
    for kind in dict.fromkeys((*one.exposed_ns, *other.exposed_ns)):
        a, b = one.exposed_ns.get(kind, 0.0), other.exposed_ns.get(kind, 0.0)
        found.append((f"waits for {kind}s", a, b))
    return [own for own in found if own[1] or own[2]]


def _bytes(one: PlanTotals, other: PlanTotals) -> list[tuple[str, int, int]]:
    fields = (
        "parameters", "gradients", "optimizer", "activations", "cache", "recomputed", "working",
        "gathered", "buffers", "host",
    )  # fmt: skip
    found = [("memory", one.memory_total_bytes, other.memory_total_bytes)]
    for field in fields:
        a, b = getattr(one.memory_bytes, field), getattr(other.memory_bytes, field)
        if a or b:
            found.append((f"  {field}", a, b))
    return found


def _ops(made: Comparison) -> Table:
    table = Table(
        title="\nOps that differ", title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in ("op", "differing", "first", "second", "compute", "communication"):
        right = column in ("compute", "communication")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for own in made.differences[:MOST_ROWS]:
        count = f" ×{own.count}" if own.count > 1 else ""
        table.add_row(
            own.label + count,
            ", ".join(own.differing),
            _side(own.first),
            _side(own.second),
            _longer([0.0 if one is None else one.compute_ns for one in (own.first, own.second)]),
            _longer(
                [0.0 if one is None else one.communication_ns for one in (own.first, own.second)]
            ),
        )
    left = len(made.differences) - MOST_ROWS
    if left > 0:
        table.add_row(f"and {left} more", "", "", "", "", "")
    return table


def _side(own: ComparedOps | None) -> str:
    if own is None:
        return "—"
    parts = [f"{factor}@{'@'.join(axes)}" for factor, axes in own.strategy.items()]
    parts += [f"+{axis}" for axis in own.partial]
    parts += [f"?{axis}" for axis in own.followers]
    return " ".join(parts) or "replicated"


def _meshes(own: PlanTotals) -> str:
    return "; ".join(
        " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes) for mesh in own.meshes
    )


def _longer(times: list[float]) -> str:
    apart = times[1] - times[0]
    return _signed(apart, show_ns(abs(apart)))


def _signed(apart: float, shown: str) -> str:
    if apart == 0:
        return ""
    return f"{'+' if apart > 0 else '−'}{shown}"
