"""A step as a Chrome trace, which Perfetto opens.

The trace uses three kinds of the Trace Event Format (Duffy and Sinclair, Google): complete events
(`X`) with `ts` and `dur` in microseconds, metadata (`M`) that names processes and threads, and
counters (`C`). A process is one device of a pipeline rank; all devices of a rank do the same. Its
threads are the passes, the compute stream, every level of links and the transfers each way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from meshwright.schedules.schedule import stages_on
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.simulation.memory import Curve
from meshwright_solver.simulation.step import SimulatedStep, step_of
from meshwright_solver.simulation.task_program import PlacedSection
from meshwright_solver.simulation.tasks import HostLink, Kind, SectionKind, StreamTask

MAX_EVENTS = 100_000  # chosen: a file of some 15 MB, which browsers read at once
MAX_SAMPLES = 2_000  # chosen: of the memory of a rank
NS_PER_US = 1e3
PASSES, COMPUTE, LINKS = 0, 1, 2

Event = dict[str, Any]


def trace_documents(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
    *,
    max_events: int = MAX_EVENTS,
) -> dict[str, Any]:
    """The trace of a plan's step; raises PlanError where the plan does not fit the documents."""
    return trace_of(step_of(plan, graph, topology, setup, calibration), max_events=max_events)


def trace_of(step: SimulatedStep, *, max_events: int = MAX_EVENTS) -> dict[str, Any]:
    """The trace as a JSON object. Microbatches beyond `max_events` tasks appear as passes alone."""
    shown, left_out = _shown_microbatches(step, max_events)
    events: list[Event] = []
    for rank in range(step.program.schedule.ranks):
        events += _names(step, rank)
        events += _rank_events(step, rank, shown)
        events += _samples(step, rank, step.curve(rank))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "plan": step.plan.id,
            "step_ms": round(step.ns / 1e6, 6),
            "devices": "one of every pipeline rank; the others of a rank do the same",
            "microbatches shown as passes alone": left_out,
        },
    }


def _shown_microbatches(step: SimulatedStep, most: int) -> tuple[frozenset[int], list[int]]:
    """Microbatches with task events, and those without.

    The first and the last microbatch take precedence, then the others in order.
    """
    count = step.program.schedule.microbatches
    tasks = np.zeros(count, dtype=np.int64)
    for rank in step.program.made:
        for place in rank:
            if place.part.is_pass:
                tasks[place.microbatch] += len(step.program.section(place).tasks)
    order = list(dict.fromkeys([0, count - 1, *range(count)]))
    fits = np.cumsum(tasks[order]) <= most
    fits[0] = True
    shown = frozenset(number for number, fit in zip(order, fits, strict=True) if fit)
    return shown, [number for number in range(count) if number not in shown]


def _names(step: SimulatedStep, rank: int) -> Iterator[Event]:
    """Metadata of the process and of its threads, in display order."""
    stages = stages_on(step.program.schedule.rank_of, rank)
    first = step.plan.stages[stages[0]].ranks_from
    which = "stage" if len(stages) == 1 else "stages"
    title = f"rank {rank}: {which} {', '.join(map(str, stages))} (device {first})"
    yield _metadata("process_name", rank, 0, {"name": title})
    yield _metadata("process_sort_index", rank, 0, {"sort_index": rank})
    names = {PASSES: "passes", COMPUTE: "compute"}
    names |= {LINKS + k: f"link {name}" for k, name in enumerate(step.levels[rank])}
    hosts = LINKS + step.program.levels
    names |= {hosts + link: f"host {link.name.lower()}" for link in HostLink}
    if step.program.schedule.stages > 1:
        for stage in stages:
            names |= {_transfer_thread(step, stage, back): text for back, text in (
                (False, f"send from stage {stage}"), (True, f"send back from stage {stage}")
            )}  # fmt: skip
    for thread, name in names.items():
        yield _metadata("thread_name", rank, thread, {"name": name})
        yield _metadata("thread_sort_index", rank, thread, {"sort_index": thread})


def _metadata(name: str, rank: int, thread: int, args: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": rank, "tid": thread, "args": args}


def _transfer_thread(step: SimulatedStep, stage: int, back: bool) -> int:
    return LINKS + step.program.links + 2 * stage + back


def _rank_events(step: SimulatedStep, rank: int, shown: frozenset[int]) -> Iterator[Event]:
    for place in step.program.made[rank]:
        tasks = step.program.section(place).tasks
        works = place.first + np.flatnonzero([task.kind is Kind.COMPUTE for task in tasks])
        if place.part.is_pass and len(works):
            yield _pass(step, rank, place, works)
        if not place.part.is_pass or place.microbatch in shown:
            yield from _task_events(step, rank, place, tasks)


def _pass(step: SimulatedStep, rank: int, place: PlacedSection, works: IntArray) -> Event:
    start, end = float(step.run.starts[works[0]]), float(step.run.ends[works[-1]])
    name = f"{place.part.name}{place.microbatch}"
    return _complete_event(rank, PASSES, name, "pass", start, end, {"stage": place.stage})


def _task_events(
    step: SimulatedStep, rank: int, place: PlacedSection, tasks: list[StreamTask]
) -> Iterator[Event]:
    """Events of a section's tasks; contiguous buckets of one collective are one event."""
    run, waited = step.run, step.waits.by_task
    numbers = [number for number, task in enumerate(tasks) if task.ns > 0]
    joined = groupby(numbers, _Runs(step, place, tasks))
    for _, group in joined:
        of = list(group)
        task, first, last = tasks[of[0]], place.first + of[0], place.first + of[-1]
        args: dict[str, Any] = {"stage": place.stage, "microbatch": place.microbatch}
        if task.kind is not Kind.COMPUTE:
            args |= {"bytes": task.payload_bytes * len(of), "traffic": task.kind.name.lower()}
            args |= {"axes": " ".join(task.axes)} if task.axes else {}
            args["waited_us"] = round(float(waited[first : last + 1].sum()) / NS_PER_US, 3)
        thread = COMPUTE
        if task.kind is Kind.PIPELINE:
            thread = _transfer_thread(step, place.stage, place.part is not SectionKind.F)
        elif task.kind is not Kind.COMPUTE:
            below = step.program.levels if task.kind is Kind.HOST else 0
            thread = LINKS + below + max(task.link, 0)
        name = task.name if task.what == "forward" else f"{task.name} {task.what}"
        start, end = float(run.starts[first]), float(run.ends[last])
        yield _complete_event(rank, thread, name, task.kind.name.lower(), start, end, args)


class _Runs:
    """Numbers of runs: contiguous buckets of one collective have the same number."""

    def __init__(self, step: SimulatedStep, place: PlacedSection, tasks: list[StreamTask]) -> None:
        self._step, self._place, self._tasks = step, place, tasks
        self._run, self._last = 0, -1

    def __call__(self, number: int) -> int:
        last, first = self._last, self._place.first
        run, tasks = self._step.run, self._tasks
        follows = (
            last == number - 1
            and last >= 0
            and tasks[last] is tasks[number]
            and run.starts[first + number] == run.ends[first + last]
        )
        self._run += not follows
        self._last = number
        return self._run


def _complete_event(
    rank: int, thread: int, name: str, category: str, start: float, end: float, args: dict[str, Any]
) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": rank,
        "tid": thread,
        "ts": round(start) / NS_PER_US,
        # the difference of rounded times, so that no event ends after the next begins
        "dur": (round(end) - round(start)) / NS_PER_US,
        "args": args,
    }


def _samples(step: SimulatedStep, rank: int, curve: Curve) -> Iterator[Event]:
    """Memory counters: the peak of every interval of the step, at most MAX_SAMPLES."""
    static, total = step.static_bytes(rank), curve.total
    stretch = np.minimum((curve.ns / (step.ns or 1.0) * MAX_SAMPLES).astype(int), MAX_SAMPLES - 1)
    order = np.lexsort((-total, stretch))
    most = order[np.unique(stretch[order], return_index=True)[1]]
    for k in most.tolist():
        held = {
            "parameters": static,
            "saved": round(float(curve.saved[k])),
            "working": round(float(curve.working[k])),
        }
        yield {
            "ph": "C",
            "name": "memory bytes",
            "pid": rank,
            "tid": 0,
            "ts": round(float(curve.ns[k])) / NS_PER_US,
            "args": held,
        }
