"""Changes between two plans by module, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from meshwright.common.units import show_bytes, show_ns, signed
from meshwright.schema.comparison import Comparison, ModuleChange


def render_modules(comparison: Comparison) -> Table:
    """The groups of modules, the small changes in one line, and the sum."""
    over = "a sample" if comparison.per_sample else "a step"
    table = Table(
        title=f"\nBy module, for {over} on one device", title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    table.add_column("module", overflow="fold")
    for column in ("first", "second", "change", "compute", "communication", "memory"):
        table.add_column(column, justify="right")
    for change in comparison.modules:
        if not change.small:
            _add(table, module_name(change), change)
    for total in (comparison.small_modules, comparison.all_modules):
        if total is not None:
            _add(table, module_name(total), total)
    return table


def module_name(change: ModuleChange) -> str:
    """The name of a group: its pattern and the number of its modules."""
    if change.part == "small":
        return f"{change.count} more below 0.1 %"
    if change.part != "modules":
        return change.part
    name = change.module or "outside modules"
    return f"{name} ×{change.count}" if change.count > 1 else name


def _add(table: Table, name: str, change: ModuleChange) -> None:
    sides: Sequence[float] = (change.first.ns, change.second.ns)
    compute_ns = change.second.compute_ns - change.first.compute_ns
    communication_ns = change.second.communication_ns - change.first.communication_ns
    table.add_row(
        name,
        *(show_ns(side) for side in sides),
        *(signed(ns, show_ns(abs(ns))) for ns in (change.ns, compute_ns, communication_ns)),
        signed(change.bytes, show_bytes(abs(change.bytes))),
    )
