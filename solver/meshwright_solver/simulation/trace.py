"""A step as a Chrome trace, which Perfetto opens.

The trace uses three kinds of the Trace Event Format (Duffy and Sinclair, Google): complete events
(`X`) with `ts` and `dur` in microseconds, metadata (`M`) that names processes and threads, and
counters (`C`). A process is one device of a pipeline rank; all devices of a rank do the same. Its
threads are the passes, the compute stream, every level of links and the transfers each way.

Gaps of the compute stream are events of the category `idle`: `bubble`, or a wait for a traffic.
Microbatches that are not shown task by task are events of the category `merged`: a pass on the
compute stream, and on links the tasks between two gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from meshwright.schedules.schedule import stages_on
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright_solver.simulation.memory import Curve
from meshwright_solver.simulation.merged_tasks import pieces_of
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
        events += _merged_events(step, rank, shown)
        events += _idle_events(step, rank, shown)
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
        span = _span(step, place)
        if place.part.is_pass and span is not None:
            name = f"{place.part.name}{place.microbatch}"
            yield _complete_event(rank, PASSES, name, "pass", *span, {"stage": place.stage})
        if not place.part.is_pass or place.microbatch in shown:
            yield from _task_events(step, rank, place, tasks)


def _span(step: SimulatedStep, place: PlacedSection) -> tuple[float, float] | None:
    """Start of the first compute task of a section and end of the last; None without such."""
    tasks = step.program.section(place).tasks
    works = place.first + np.flatnonzero([task.kind is Kind.COMPUTE for task in tasks])
    if not len(works):
        return None
    return float(step.run.starts[works[0]]), float(step.run.ends[works[-1]])


def _merged_events(step: SimulatedStep, rank: int, shown: frozenset[int]) -> Iterator[Event]:
    """Microbatches that are not shown task by task."""
    for place, span in _merged_passes(step, rank, shown):
        args = {"stage": place.stage, "microbatch": place.microbatch, "pass": place.part.name}
        name = f"{place.part.name}{place.microbatch}"
        yield _complete_event(rank, COMPUTE, name, "merged", *span, args)
    for piece in pieces_of(step, rank, shown, partial(_thread, step)):
        args = {
            "traffic": piece.kind.name.lower(),
            "busy_us": round(piece.busy_ns / NS_PER_US, 3),
            "microbatches": f"{piece.first} to {piece.last}",
        }
        name = f"microbatches {piece.first} to {piece.last}"
        yield _complete_event(rank, piece.thread, name, "merged", piece.start, piece.end, args)


def _merged_passes(
    step: SimulatedStep, rank: int, shown: frozenset[int]
) -> Iterator[tuple[PlacedSection, tuple[float, float]]]:
    for place in step.program.made[rank]:
        if place.part.is_pass and place.microbatch not in shown:
            span = _span(step, place)
            if span is not None:
                yield place, span


def _idle_events(step: SimulatedStep, rank: int, shown: frozenset[int]) -> Iterator[Event]:
    """Gaps of the compute stream, without those inside merged passes."""
    spans = np.array([span for _, span in _merged_passes(step, rank, shown)]).reshape(-1, 2)
    idle = step.idle
    here = idle.rank == rank
    starts, ends, kinds = idle.starts[here], idle.ends[here], idle.kind[here]
    if len(spans):
        before = np.searchsorted(spans[:, 0], starts, side="right") - 1
        outside = (before < 0) | (ends > spans[before, 1])
        starts, ends, kinds = starts[outside], ends[outside], kinds[outside]
    for start, end, number in zip(starts.tolist(), ends.tolist(), kinds.tolist(), strict=True):
        kind = Kind(number)
        traffic = "bubble" if kind is Kind.COMPUTE else kind.name.lower()
        name = "bubble" if kind is Kind.COMPUTE else f"wait for {traffic}"
        if round(end) > round(start):
            yield _complete_event(rank, COMPUTE, name, "idle", start, end, {"traffic": traffic})


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
        args |= {"pass": place.part.name, "what": task.what}
        if task.kind is not Kind.COMPUTE:
            args |= {"bytes": task.payload_bytes * len(of), "traffic": task.kind.name.lower()}
            args |= {"axes": " ".join(task.axes)} if task.axes else {}
            args["waited_us"] = round(float(waited[first : last + 1].sum()) / NS_PER_US, 3)
        name = task.name if task.what == "forward" else f"{task.name} {task.what}"
        start, end = float(run.starts[first]), float(run.ends[last])
        thread = _thread(step, place, task)
        yield _complete_event(rank, thread, name, task.kind.name.lower(), start, end, args)


def _thread(step: SimulatedStep, place: PlacedSection, task: StreamTask) -> int:
    if task.kind is Kind.COMPUTE:
        return COMPUTE
    if task.kind is Kind.PIPELINE:
        return _transfer_thread(step, place.stage, place.part is not SectionKind.F)
    below = step.program.levels if task.kind is Kind.HOST else 0
    return LINKS + below + max(task.link, 0)


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
