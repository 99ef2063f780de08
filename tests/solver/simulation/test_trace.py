"""What a trace shows of a step; its format is held in test_trace_format.py."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from meshwright.schema import ScheduleKind
from meshwright_solver.simulation.step import SimulatedStep, step_of
from meshwright_solver.simulation.summary import rank_step
from meshwright_solver.simulation.trace import trace_of
from tests.solver.layered import layered
from tests.solver.pipeline.test_pipeline_planner import asked
from tests.solver.requests import planned


def stepped(kind: ScheduleKind = "1f1b", count: int = 1) -> SimulatedStep:
    request = asked(layered(), schedule=kind, stages_per_rank=count)
    return step_of(planned(request), request.graph, request.topology, request.setup)


def events(step: SimulatedStep, phase: str, **more: int) -> list[dict[str, Any]]:
    made = json.loads(json.dumps(trace_of(step, **more), allow_nan=False))
    return [event for event in made["traceEvents"] if event["ph"] == phase]


@pytest.mark.parametrize(("kind", "count"), [("1f1b", 1), ("zb_h1", 1), ("interleaved_1f1b", 2)])
def test_events_end_when_the_step_does(kind: ScheduleKind, count: int) -> None:
    step = stepped(kind, count)
    complete = events(step, "X")
    for own in complete:
        assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} == {*own} - {"ph"}
    # microseconds: the last event ends when the step does
    assert max(own["ts"] + own["dur"] for own in complete) == pytest.approx(step.ns / 1e3, abs=0.01)


def test_compute_and_traffic_are_all_there() -> None:
    step = stepped()
    for rank in range(2):
        own = rank_step(step, rank)
        for category, ns in (("compute", own.compute_ns), *own.communication_ns.items()):
            shown = [
                e["dur"] for e in events(step, "X") if (e["pid"], e["cat"]) == (rank, category)
            ]
            assert sum(shown) == pytest.approx(ns / 1e3, rel=1e-3, abs=0.05), category


def test_memory_is_a_counter_with_its_peak() -> None:
    step = stepped()
    for rank in range(2):
        samples = [own for own in events(step, "C") if own["pid"] == rank]
        assert [own["ts"] for own in samples] == sorted(own["ts"] for own in samples)
        most = max(sum(own["args"].values()) for own in samples)
        assert most == pytest.approx(rank_step(step, rank).peak_bytes, abs=3)


def test_what_does_not_fit_is_shown_as_passes_and_said() -> None:
    step = stepped()
    whole, short = trace_of(step), trace_of(step, max_events=1)
    assert whole["otherData"]["microbatches shown as passes alone"] == []
    assert short["otherData"]["microbatches shown as passes alone"] == [1, 2, 3]
    passes = [e["name"] for e in events(step, "X", max_events=1) if e["cat"] == "pass"]
    assert sorted(passes) == sorted([f"{what}{m}" for what in "FB" for m in range(4)] * 2)
    assert len(short["traceEvents"]) < len(whole["traceEvents"])


CASES = [("1f1b", 1), ("gpipe", 1), ("zb_h1", 1), ("interleaved_1f1b", 2), ("zb_v", 2)]


@pytest.mark.parametrize(("kind", "count"), CASES)
@pytest.mark.parametrize("most", [1, 100_000])
def test_the_compute_stream_has_no_gap(kind: ScheduleKind, count: int, most: int) -> None:
    step = stepped(kind, count)
    complete = events(step, "X", max_events=most)
    assert any(own["cat"] == "merged" for own in complete) == (most == 1)
    for rank in range(2):
        compute = [own for own in complete if (own["pid"], own["tid"]) == (rank, 1)]
        compute.sort(key=lambda own: own["ts"])
        end = 0.0
        for own in compute:
            assert own["ts"] == pytest.approx(end, abs=0.005), own
            end = own["ts"] + own["dur"]
        assert end == pytest.approx(step.ns / 1e3, abs=0.01)
        idle = {
            traffic: sum(own["dur"] for own in compute if own["args"].get("traffic") == traffic)
            for traffic in ("bubble", "activation", "parameter", "gradient", "pipeline")
        }
        if most > 1:
            told = rank_step(step, rank)
            assert idle.pop("bubble") == pytest.approx(told.bubble_ns / 1e3, rel=1e-3, abs=0.05)
            for traffic, us in idle.items():
                waited = told.exposed_ns[traffic] / 1e3  # type: ignore[index]  # the same names
                assert us == pytest.approx(waited, rel=1e-3, abs=0.05), traffic


@pytest.mark.parametrize(("kind", "count"), CASES)
def test_merged_tasks_keep_their_time_on_links(kind: ScheduleKind, count: int) -> None:
    step = stepped(kind, count)
    whole, short = events(step, "X"), events(step, "X", max_events=1)
    for key in {(own["pid"], own["tid"]) for own in whole if own["tid"] > 1}:
        full = sum(own["dur"] for own in whole if (own["pid"], own["tid"]) == key)
        here = [own for own in short if (own["pid"], own["tid"]) == key]
        busy = sum(own["args"].get("busy_us", own["dur"]) for own in here)
        assert busy == pytest.approx(full, rel=1e-3, abs=0.1)
        here.sort(key=lambda own: own["ts"])
        for one, other in pairwise(here):
            assert other["ts"] >= one["ts"] + one["dur"] - 0.002


@pytest.mark.parametrize(("kind", "count"), CASES)
def test_the_use_of_links_adds_up_to_the_communication(kind: ScheduleKind, count: int) -> None:
    step = stepped(kind, count)
    for rank in range(2):
        own = rank_step(step, rank)
        uses = {use.link: use for use in own.links}
        across = uses.pop("pipeline", None)
        moved = ("activation", "parameter", "gradient")
        told = sum(own.communication_ns[traffic] for traffic in moved)
        assert sum(use.busy_ns for use in uses.values()) == pytest.approx(told)
        waited = sum(own.exposed_ns[traffic] for traffic in moved)
        assert sum(use.exposed_ns for use in uses.values()) == pytest.approx(waited)
        assert (across.busy_ns if across else 0) == pytest.approx(own.communication_ns["pipeline"])
        assert all(0 <= use.exposed_ns <= use.busy_ns + 1e-6 for use in own.links)
