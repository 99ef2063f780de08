"""The waterfall from the step of one plan to that of another, as a table."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from meshwright.common.units import show_ns, signed
from meshwright.reports.comparison import compared_ns
from meshwright.schema.comparison import Comparison

_WIDTH = 32  # chosen: characters of the longest bar
_FULL = "█"


def render_waterfall(comparison: Comparison) -> Table:
    """The first step, the change of each part and the sum until then, and the second step."""
    over = "a sample" if comparison.per_sample else "a step"
    table = Table(
        title=f"\nFrom the first plan to the second, for {over}", title_justify="left",
        title_style="bold", box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    table.add_column("part", overflow="fold")
    for column in ("change", "sum"):
        table.add_column(column, justify="right")
    table.add_column("")
    first_ns, second_ns = (
        compared_ns(totals, per_sample=comparison.per_sample)
        for totals in (comparison.first, comparison.second)
    )
    longest_ns = max((abs(change.ns) for change in comparison.changes), default=0.0)
    table.add_row("first plan", "", show_ns(first_ns), "")
    for change in comparison.changes:
        table.add_row(
            change.part,
            signed(change.ns, show_ns(abs(change.ns))),
            show_ns(change.until_ns),
            ("+" if change.ns > 0 else "−") + _bar(abs(change.ns) / longest_ns),
        )
    difference_ns = second_ns - first_ns
    difference = signed(difference_ns, show_ns(abs(difference_ns)))
    table.add_row("second plan", difference, show_ns(second_ns), "")
    return table


def _bar(share: float) -> str:
    return _FULL * max(1, round(share * _WIDTH))
