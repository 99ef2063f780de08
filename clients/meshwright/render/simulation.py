"""Simulated steps as text: step time, ranks and exposed communication."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.units import show_bytes, show_ns, show_share
from meshwright.schema.simulation import RankStep, Simulation

FEW = 8  # chosen: lines of exposed communication


def render_simulation(simulation: Simulation) -> RenderableType:
    """The step time, its ranks, and the largest exposed communication."""
    return Group(_head(simulation), _ranks(simulation), *_waits(simulation))


def _head(simulation: Simulation) -> RenderableType:
    step, predicted = simulation.step_ns, simulation.predicted_ns
    return Text(
        f"step {show_ns(step)} simulated, {simulation.tasks:,} tasks; the plan says "
        f"{show_ns(predicted)} ({_relative_error(predicted, step)})"
    )


def _relative_error(ns: float, of_ns: float) -> str:
    return f"{ns / of_ns - 1:+.1%}" if of_ns else "-"


def _share(ns: float, of_ns: float) -> str:
    return show_share(ns / of_ns) if of_ns else "-"


def _ranks(simulation: Simulation) -> RenderableType:
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("rank")
    for column in ("compute", "waits for", "bubble", "memory at its peak", "when"):
        table.add_column(column, overflow="fold")
    for rank in simulation.ranks:
        table.add_row(
            str(rank.rank),
            show_ns(rank.compute_ns),
            ", ".join(_traffic(rank)) or "nothing",
            f"{show_ns(rank.bubble_ns)} ({_share(rank.bubble_ns, simulation.step_ns)})",
            f"{show_bytes(rank.peak_bytes)} of {show_bytes(rank.capacity_bytes)}: "
            f"{show_bytes(rank.static_bytes)} of parameters; at most "
            f"{show_bytes(rank.saved_bytes)} saved, {show_bytes(rank.working_bytes)} working",
            show_ns(rank.peak_ns),
        )
    return table


def _traffic(rank: RankStep) -> Iterator[str]:
    """By traffic, the wait of compute and the time of the transfers.

    The wait may be the longer one: transfers wait for links and for other ranks too.
    """
    for name, ns in rank.communication_ns.items():
        exposed = rank.exposed_ns.get(name, 0.0)
        if ns or exposed:
            yield f"{name} {show_ns(exposed)} (transfers {show_ns(ns)})"


def _waits(simulation: Simulation) -> Iterator[RenderableType]:
    for exposure in simulation.exposures[:FEW]:
        share = show_share(exposure.waited_ns / simulation.step_ns / len(simulation.ranks))
        yield Text(
            f"waited for {exposure.name} {exposure.what} ({exposure.traffic}): "
            f"{show_ns(exposure.waited_ns)} (transfers {show_ns(exposure.ns)}), {share} of the step"
        )
