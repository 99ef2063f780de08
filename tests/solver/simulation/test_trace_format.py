"""Traces hold to the Trace Event Format, whatever the plan; and what breaks it is found.

Perfetto's own importer is a program that its Python package downloads, so it is not run here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from meshwright.schema import Budget, Constraints, Recompute, Request, ScheduleKind, Setup
from meshwright_solver.simulation.step import step_of
from meshwright_solver.simulation.trace import trace_of
from tests.solver.hosted import hosted
from tests.solver.layered import layered
from tests.solver.pipeline.test_pipeline_planner import asked
from tests.solver.requests import planned, toy_request, transformer_mlp
from tests.solver.small_graphs import topology
from tests.solver.trace_format import faults

NAMED = [
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "compute"}},
]


def on_thread(phase: str, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": "op", "pid": 0, "tid": 1, "ts": 2.5, **more}


def document(*events: dict[str, Any]) -> dict[str, Any]:
    return {"traceEvents": [*NAMED, *events]}


FLOW = {"cat": "send", "id": 7}
RIGHT = {
    "one behind the other": [on_thread("X", dur=1), on_thread("X", ts=3.5, dur=2)],
    "one in the other": [on_thread("X", dur=4), on_thread("X", ts=3.5, dur=3)],
    "begin and end": [
        on_thread("B"), on_thread("B", ts=3, name="inner"), on_thread("E", ts=4, name="inner"),
        on_thread("E", ts=5),
    ],
    "a flow": [on_thread("s", **FLOW), on_thread("t", ts=3, **FLOW), on_thread("f", ts=4, **FLOW)],
    "a counter": [{"ph": "C", "name": "bytes", "pid": 0, "ts": 0, "args": {"saved": 3}}],
}  # fmt: skip
WRONG = {
    "no phase": [{"name": "op", "pid": 0, "tid": 1, "ts": 0}],
    "no length": [on_thread("X")],
    "a key that nobody reads": [on_thread("X", dur=1, duration=1)],
    "before the begin": [on_thread("X", ts=-1, dur=1)],
    "less than a nanosecond": [on_thread("X", ts=0.12345, dur=1)],
    "no number": [on_thread("X", ts="0", dur=1)],
    "not finite": [on_thread("X", dur=float("nan"))],
    "a thread by name": [on_thread("X", dur=1, tid="compute")],
    "two that cross": [on_thread("X", dur=2), on_thread("X", ts=3.5, dur=2)],
    "two that cross by a nanosecond": [on_thread("X", dur=1.001), on_thread("X", ts=3.5, dur=2)],
    "an end of nothing": [on_thread("E")],
    "an end of another": [on_thread("B"), on_thread("E", ts=3, name="other")],
    "no end": [on_thread("B")],
    "an end before the begin": [on_thread("B"), on_thread("E", ts=1)],
    "a flow that ends nowhere": [on_thread("s", **FLOW)],
    "a flow from nowhere": [on_thread("f", **FLOW)],
    "a flow back in time": [on_thread("s", **FLOW), on_thread("f", ts=1, **FLOW)],
    "a counter of words": [{"ph": "C", "name": "b", "pid": 0, "ts": 0, "args": {"saved": "3"}}],
    "a counter of nothing": [{"ph": "C", "name": "b", "pid": 0, "ts": 0, "args": {}}],
    "a thread without a name": [on_thread("X", dur=1, tid=2)],
    "a process without a name": [{"ph": "C", "name": "b", "pid": 1, "ts": 0, "args": {"a": 3}}],
    "a name twice": [NAMED[1]],
    "metadata that nobody knows": [
        {"ph": "M", "name": "colour", "pid": 0, "args": {"name": "red"}}
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_format_allows_is_right(name: str) -> None:
    assert faults(document(*RIGHT[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_the_format_is_found(name: str) -> None:
    assert len(faults(document(*WRONG[name]))) == 1


def test_a_trace_is_an_object_of_events() -> None:
    assert faults([]) == faults({}) == ["no object with a list of traceEvents"]
    assert faults({"traceEvents": [], "events": []}) == ["'events' is no key of a trace"]


def checked(request: Request, **more: int) -> dict[str, Any]:
    step = step_of(planned(request), request.graph, request.topology, request.setup)
    made: dict[str, Any] = json.loads(json.dumps(trace_of(step, **more), allow_nan=False))
    assert faults(made) == []
    return made


SCHEDULES: list[tuple[ScheduleKind, int]] = [
    ("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("zb_h1", 1), ("zb_v", 2),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "count"), SCHEDULES)
@pytest.mark.parametrize("max_events", [1, 100_000])
def test_pipelines_hold_to_it(kind: ScheduleKind, count: int, max_events: int) -> None:
    made = checked(asked(layered(), schedule=kind, stages_per_rank=count), max_events=max_events)
    threads = {e["args"]["name"] for e in made["traceEvents"] if e["name"] == "thread_name"}
    assert {"passes", "compute", "send from stage 0", "send back from stage 1"} <= threads


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("policy", ["none", "full"])
def test_one_stage_holds_to_it(copies: int, policy: str) -> None:
    setup = Setup(microbatches=4, copies=copies)
    graph = transformer_mlp(64).graph("loss:out", loss="loss:out")
    recompute, budget = Recompute(policy=policy), Budget(max_axes=2)
    made = checked(
        toy_request(
            graph=graph, topology=topology(2, 4), setup=setup, budget=budget, recompute=recompute
        )
    )
    assert {e["ph"] for e in made["traceEvents"]} == {"M", "X", "C"}


def test_hosts_hold_to_it() -> None:
    graph = transformer_mlp(64).graph("loss:out", loss="loss:out")
    made = checked(
        toy_request(
            graph=graph,
            topology=hosted(2, memory_bytes=3 << 27),
            setup=Setup(microbatches=2, memory_reserve=0.0),
            constraints=Constraints(offload="optimizer"),
            budget=Budget(max_axes=1),
        )
    )
    assert {e["cat"] for e in made["traceEvents"] if "cat" in e} >= {"compute", "host"}
