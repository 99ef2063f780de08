"""Cost of a move to a plan, compared with the other choices."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_bytes, show_ns
from meshwright.schema import Plan
from meshwright.schema.migration import MoveChoice, PlanMove


def move_table(plan: Plan) -> Iterator[RenderableType]:
    """A table of the previous plan and each choice; nothing for a plan without a move."""
    if plan.move is None:
        return
    move = plan.move
    table = Table(
        title=f"\nGoing on from {move.from_plan[:17]}, {move.steps:,} steps left",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1),
    )  # fmt: skip
    table.add_column("plan")
    for name in ("step", "memory", "moves", "in", "steps and move"):
        table.add_column(name, justify="right")
    previous = f"before, on {move.from_devices:,} devices"
    table.add_row(
        previous, show_ns(move.from_step_ns), show_bytes(move.from_memory_bytes), "", "", ""
    )
    for choice in move.choices:
        table.add_row(choice.name, *_cells(choice))
    yield table
    for choice in move.choices:
        if choice.why:
            yield Text(f"{choice.name}: none: {choice.why}")
    yield Text(_break_even(move))


def _cells(choice: MoveChoice) -> tuple[str, ...]:
    times = choice.step_ns, choice.memory_bytes, choice.moved_bytes, choice.move_ns
    shows = show_ns, show_bytes, show_bytes, show_ns
    cells = [
        show(value) if value is not None else "" for show, value in zip(shows, times, strict=True)
    ]
    return (*cells, "" if choice.total_ns is None else show_ns(choice.total_ns))


def _break_even(move: PlanMove) -> str:
    choice = move.choices[0]
    if move.pays_after_steps is None:
        return f"{choice.name}: the least time for the steps left and the move"
    after = move.pays_after_steps
    start = f"after {after:,} steps" if after else "from the first step on"
    return (
        f"{choice.name}: the least time for the steps left and the move; ahead of the same degrees "
        f"{start}"
    )
