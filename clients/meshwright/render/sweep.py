"""A sweep as a table, with its best points in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_ns, show_share
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.sweep import SweepResult, SweepRow

Column = tuple[str, Callable[[SweepRow, PlanFigures], str]]


def render_sweep(result: SweepResult) -> RenderableType:
    """The rows of a sweep, then its best rows in words."""
    lines = (Text(line) for line in summary_lines(result))
    return Group(_table(result), *lines)


def summary_lines(result: SweepResult) -> Iterator[str]:
    """The best rows by throughput, throughput of a device and price; the points without a plan."""
    fitting = [row for row in result.rows if row.figures is not None and row.figures.fits]
    rated = [row for row in fitting if _units_per_s(row)]
    unit = unit_of(result)
    if rated:
        fastest = max(rated, key=_units_per_s)
        yield f"fastest: {_words(result, fastest)}, {show_count(_units_per_s(fastest))} {unit}/s"
        busiest = max(rated, key=_per_device)
        yield (
            f"most for each device: {_words(result, busiest)}, "
            f"{show_count(_per_device(busiest))} {unit}/s"
        )
    priced = [row for row in rated if row.price_per_million is not None]
    if priced:
        cheapest = min(priced, key=lambda row: row.price_per_million or 0.0)
        text = f"cheapest: {_words(result, cheapest)}, {show_count(cheapest.price_per_million)}"
        run = "" if cheapest.run_price is None else f"; the run {show_count(cheapest.run_price)}"
        yield f"{text} for a million {unit}{run}"
    missing = [row for row in result.rows if row not in fitting]
    if missing:
        counts = {state: sum(row.state == state for row in missing) for state in _STATES}
        named = (f"{count} {text}" for state, text in _STATES.items() if (count := counts[state]))
        yield f"{len(missing)} of {len(result.rows)} points without a plan that fits: " + ", ".join(
            named
        )


_STATES = {
    "planned": "whose plan does not fit",
    "infeasible": "infeasible",
    "refused": "refused",
    "failed": "failed",
    "cancelled": "not reached",
    "deleted": "deleted",
    "waiting": "waiting",
    "searching": "searching",
}


def axes_of(result: SweepResult) -> tuple[str, ...]:
    """The fields in which the points differ, the topology always."""
    points = [row.point for row in result.rows]
    fields = ("batch", "sequence", "precision", "target")
    differing = (field for field in fields if len({getattr(p, field) for p in points}) > 1)
    return ("topology", *differing)


def unit_of(result: SweepResult) -> str:
    """The unit of throughput: tokens, or samples without sequences."""
    figures = (row.figures for row in result.rows if row.figures is not None)
    return "tokens" if any(one.tokens_per_s is not None for one in figures) else "samples"


def show_count(value: float | None) -> str:
    """A number with three digits or more and thousands separated, such as `12,300` or `0.214`."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(result: SweepResult) -> Table:
    axes = axes_of(result)
    columns = _columns(result)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for axis in axes:
        table.add_column(axis, justify="right" if axis in ("batch", "sequence") else "left")
    for name, _ in columns:
        table.add_column(name, justify="left" if name == "degrees" else "right", overflow="fold")
    for row in result.rows:
        values = [_shown(getattr(row.point, axis)) for axis in axes]
        cells = [show(row, row.figures) if row.figures else "" for _, show in columns]
        if row.figures is None:
            cells[-1] = f"{row.state}: {row.reason}" if row.reason else row.state
        mark = "●" if row.on_front else ""
        fits = row.figures is None or row.figures.fits
        table.add_row(mark, *values, *cells, style="" if fits else "dim")
    if any(row.on_front for row in result.rows):
        unit = unit_of(result)
        table.caption = f"● no other point has as many {unit}/s on as few devices"
        table.caption_justify = "left"
    return table


def _columns(result: SweepResult) -> Sequence[Column]:
    unit = unit_of(result)
    columns: list[Column] = [
        ("devices", lambda _, figures: f"{figures.devices:,}"),
        ("step", lambda _, figures: show_ns(figures.step_ns)),
        (f"{unit}/s", lambda _, figures: show_count(figures.units_per_s)),
        ("a device", lambda row, _: show_count(_per_device(row))),
        ("MFU", lambda _, figures: _share(figures.utilization)),
        ("headroom", lambda _, figures: _headroom(figures)),
    ]
    priced = any(row.price_per_million is not None for row in result.rows)
    if priced:
        columns.append((f"a million {unit}", lambda row, _: show_count(row.price_per_million)))
    if any(row.run_days is not None for row in result.rows):
        columns.append(("run, days", lambda row, _: show_count(row.run_days)))
        if priced:
            columns.append(("run, price", lambda row, _: show_count(row.run_price)))
    columns.append(("degrees", lambda _, figures: _degrees(figures)))
    return columns


def _headroom(figures: PlanFigures) -> str:
    return show_share(figures.headroom) if figures.fits else "does not fit"


def _degrees(figures: PlanFigures) -> str:
    """The degrees; `≈` before those from which some ops or parameters differ."""
    return ("≈ " if figures.differing else "") + figures.degrees


def _words(result: SweepResult, row: SweepRow) -> str:
    fields = axes_of(result)
    rest = (f"{field} {_shown(getattr(row.point, field))}" for field in fields[1:])
    return ", ".join((row.point.topology, *rest))


def _units_per_s(row: SweepRow) -> float:
    return (row.figures.units_per_s if row.figures is not None else None) or 0.0


def _per_device(row: SweepRow) -> float:
    return (row.figures.device_rate if row.figures is not None else None) or 0.0


def _share(part: float | None) -> str:
    return "" if part is None else show_share(part)


def _shown(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "none" if value is None else str(value)
