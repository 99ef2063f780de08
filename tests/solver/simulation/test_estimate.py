"""The closed form against the events: on the examples, on pipelines, and where it must be exact."""

from __future__ import annotations

import pytest

from examples.plan_all import CASES as EXAMPLES
from examples.plan_all import Case
from meshwright.schema import Pipeline, Request, ScheduleKind, Setup
from solver.pipeline.schedules import schedule
from solver.simulation.estimate import estimate_ns
from solver.simulation.events import run
from solver.simulation.step import Step, step_of
from tests.solver.pipeline.layered import layered
from tests.solver.pipeline.test_pipeline_planner import CASES as PIPELINES
from tests.solver.requests import planned
from tests.solver.simulation.synthetic import program
from tests.solver.small_graphs import topology

TOLERANCE = 0.03
# every kind of example; the two largest take seconds more and are told in docs/simulation.md
PLANNED = [case for case in EXAMPLES if case.name not in ("llama3-405b", "gpt3-175b")]


def stepped(request: Request) -> Step:
    return step_of(planned(request), request.graph, request.topology, request.setup)


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: f"{case.name}-{case.topology}")
def test_the_examples_are_within_three_percent(case: Case) -> None:
    step = stepped(case.request)
    assert estimate_ns(step.program) == pytest.approx(step.ns, rel=TOLERANCE)


@pytest.mark.parametrize(("kind", "count"), PIPELINES)
def test_pipelines_are_within_three_percent(kind: ScheduleKind, count: int) -> None:
    request = Request(
        graph=layered(8, batch=64, width=1024),
        topology=topology(2, 4, flops_per_s=1e12),
        setup=Setup(microbatches=8),
        pipeline=Pipeline(ranks=2, schedule=kind, stages_per_rank=count),
    )
    step = stepped(request)
    assert estimate_ns(step.program) == pytest.approx(step.ns, rel=TOLERANCE)


@pytest.mark.parametrize(("kind", "count"), PIPELINES)
def test_passes_alone_are_exact(kind: ScheduleKind, count: int) -> None:
    own = schedule(kind, 4, 8, count)
    lengths = [(1.0 + stage, 2.0, 3.0) for stage in range(own.stages)]
    made = program(own, lengths)
    assert estimate_ns(made) == pytest.approx(float(run(made.lines).ends.max()))
