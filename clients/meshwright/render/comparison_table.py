"""Comparison of several plans as a table: one column for each plan."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_bytes, show_ns, show_share, signed
from meshwright.render.sweep import show_count
from meshwright.schema.comparison_table import ComparisonTable, FigureRow, TextRow, Unit

_BEST = "●"


def render_comparison_table(made: ComparisonTable) -> RenderableType:
    """The options in which the requests differ, the choices, and the figures."""
    parts: list[RenderableType] = []
    if made.requested:
        parts.append(_texts(made, "Requested differently", made.requested))
    parts.append(_texts(made, "Chosen", made.chosen))
    parts.append(_figures(made))
    parts.append(Text(f"{_BEST} the best value. Differences from {_heads(made)[made.baseline]}."))
    return Group(*parts)


def _texts(made: ComparisonTable, title: str, rows: tuple[TextRow, ...]) -> Table:
    table = _table(made, title)
    for row in rows:
        table.add_row(row.name, *row.values)
    return table


def _figures(made: ComparisonTable) -> Table:
    table = _table(made, "Figures")
    for row in made.figures:
        cells = [_cell(row, position, made.baseline) for position in range(len(made.plans))]
        table.add_row(row.name, *cells)
    table.add_row("fits", *("yes" if plan.fits else "no" for plan in made.plans))
    return table


def _cell(row: FigureRow, position: int, baseline: int) -> str:
    value, change = row.values[position], row.changes[position]
    if value is None:
        return "–"
    text = f"{_BEST} " if position in row.best else ""
    text += _shown(row.unit, value)
    if position != baseline and change:
        text += f" ({signed(change, _shown(row.unit, abs(change)))})"
    return text


def _shown(unit: Unit, value: float) -> str:
    match unit:
        case "ns":
            return show_ns(value)
        case "bytes":
            return show_bytes(value)
        case "share":
            return show_share(value)
        case "per_s":
            return f"{show_count(value)}/s"
        case "count":
            return f"{value:,.0f}"


def _table(made: ComparisonTable, title: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    table.add_column("", overflow="fold")
    for head in _heads(made):
        table.add_column(head, overflow="fold", justify="right" if title == "Figures" else "left")
    return table


def _heads(made: ComparisonTable) -> list[str]:
    """The names of the columns: the position of each plan and its name."""
    return [
        f"{position + 1} {plan.name or plan.plan[:17]}" for position, plan in enumerate(made.plans)
    ]
