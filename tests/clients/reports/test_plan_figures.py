"""The figures of a plan: degrees as text, and the numbers of the plan and of its throughput."""

from __future__ import annotations

import pytest

from meshwright.plugins.planner import preset
from meshwright.reports.plan_figures import degrees_text, figures_of
from meshwright.reports.throughput import throughput_of
from meshwright.schema import Degrees, Graph, Request, Setup
from meshwright.schema.uniform_degrees import Uniform
from meshwright_solver.planning.planner import plan
from tests.service.samples import GRAPH


@pytest.mark.parametrize(
    ("uniform", "text"),
    [
        (Uniform(degrees=Degrees(dp=1), microbatches=1), "one device"),
        (Uniform(degrees=Degrees(dp=8, tp=4, zero=1), microbatches=1), "dp 8 · tp 4 · ZeRO 1"),
        (
            Uniform(
                degrees=Degrees(dp=2, tp=2, cp=2, ep=2),
                pipeline_ranks=4,
                stages_per_rank=2,
                microbatches=8,
            ),
            "dp 2 · tp 2 · cp 2 · ep 2 · pp 4 · vp 2",
        ),
    ],
)
def test_degrees_as_people_write_them(uniform: Uniform, text: str) -> None:
    assert degrees_text(uniform) == text


def test_figures_are_those_of_the_plan_and_its_throughput() -> None:
    request = Request(
        graph=Graph.from_dict(GRAPH), topology=preset("h100-1x4"), setup=Setup(global_batch=64)
    )
    made = plan(request).plan
    assert made is not None
    figures = figures_of(made, request)
    throughput = throughput_of(made, request.graph, request.topology, request.setup)
    memory = made.cost.memory_bytes
    assert (figures.plan, figures.step_ns) == (made.id, made.cost.step_ns)
    assert (figures.batch, figures.sequence) == (64, 16)
    assert figures.tokens_per_s == throughput.tokens_per_s == figures.units_per_s
    assert figures.fits
    assert figures.headroom == pytest.approx(1 - memory.total / memory.capacity)
    full = figures.model_copy(update={"memory_bytes": figures.capacity_bytes + 1})
    assert not full.fits
    assert full.headroom < 0
