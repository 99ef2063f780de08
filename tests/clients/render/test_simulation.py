"""A simulated step as text."""

from __future__ import annotations

import io

from rich.console import Console

from meshwright.render.simulation import render_simulation
from meshwright.schema.simulation import Exposure, RankStep, Simulation


def simulation(waited_ns: float, moved_ns: float) -> Simulation:
    rank = RankStep(
        rank=0, stages=(0,), compute_ns=1e9, exposed_ns={"parameter": waited_ns}, bubble_ns=0.0,
        communication_ns={"parameter": moved_ns}, static_bytes=1, saved_bytes=1, working_bytes=1,
        peak_bytes=3, peak_ns=0.0, capacity_bytes=4, links=(),
    )  # fmt: skip
    exposure = Exposure(
        name="w", what="all_gather", traffic="parameter", waited_ns=waited_ns, ns=moved_ns
    )
    return Simulation(
        plan="plan_1", step_ns=1e9 + waited_ns, predicted_ns=1e9, tasks=3, ranks=(rank,),
        exposures=(exposure,),
    )  # fmt: skip


def test_a_wait_longer_than_the_transfers_is_no_part_of_them() -> None:
    """Transfers wait for links and for other ranks, and compute waits for both."""
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(render_simulation(simulation(957e6, 639e6)))
    text = console.export_text()
    assert "parameter 957 ms (transfers 639 ms)" in text
    assert "957 ms of 639 ms" not in text
