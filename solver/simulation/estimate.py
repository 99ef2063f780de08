"""A step with overlap in closed form: what the simulator comes to, without events.

For a section, with C its compute, A_l its activations' and B_l its parameters' and gradients' time
on link l,

    path     the longest way through its tasks, where only those of one kind and link, and those of
             compute, wait for each other
    least    max(path, max over l of A_l + B_l): no link is done before it has moved all
    waits    sum over l of min(n_l rho_l, k_l) s_l / 2: each of n_l activations finds the link at
             one of k_l buckets with probability rho_l = B_l / (path - A_l), at most 1, and waits
             for the rest of it; s_l / 2 = sum of squares / (2 B_l), the mean residual service of
             queueing theory (Kleinrock 1975, Queueing Systems I, section 5.2)

A pass takes its path over compute and activations, and its waits; what links cannot do beside the
passes over a microbatch is added to the last of these. At the begin of the step comes what the
first forward pass lacks of parameters, at its end what is left of the gradients, and the update.
Passes then run as their schedule says (`solver.pipeline.passes`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from solver.pipeline.passes import Durations, run
from solver.pipeline.schedule import stages_on
from solver.simulation.program import Program
from solver.simulation.script import Script
from solver.simulation.tasks import Kind, Part, Section

WORK = (Kind.COMPUTE, Kind.ACTIVATION)
AHEAD = (*WORK, Kind.PARAMETER)
BEHIND = (*WORK, Kind.GRADIENT, Kind.HOST)
BESIDE = (Kind.PARAMETER, Kind.GRADIENT)


def estimate_ns(program: Program) -> float:
    """The length of a step; of what the simulator makes of it, a few percent off at most."""
    schedule = program.schedule
    stages = [_stage(script) for script in program.scripts]
    ways = np.array([_transfers(script) for script in program.scripts])
    transfer = np.stack([ways[:-1, 0], ways[1:, 1]]) if len(ways) > 1 else np.zeros((2, 0))
    lengths = np.array([own[:3] for own in stages])
    made = run(schedule, Durations(lengths[:, 0], lengths[:, 1], lengths[:, 2], transfer))
    _, bounds = schedule.table
    return stages[0].begin + max(
        float(made.ends[bounds[rank + 1] - 1])
        + sum(stages[stage].end for stage in stages_on(schedule.rank_of, rank))
        for rank in range(schedule.ranks)
    )


class _Stage(NamedTuple):
    """ns of its passes, where the backward pass is whole as that of inputs; and once a step."""

    forward: float
    inputs: float
    weights: float
    begin: float
    end: float


def _stage(script: Script) -> _Stage:
    passes = [script[part] for part in Part if part.is_pass and part in script]
    own = [_path((section,), WORK) + _waits((section,)) for section in passes]
    own[-1] += max(0.0, _busiest(passes) - sum(own))
    own += [0.0] * (3 - len(own))
    first, last = passes[0], passes[-1]
    begin = _least((script.get(Part.SPREAD, Section(Part.SPREAD)), first), AHEAD) - own[0]
    end = 0.0
    if Part.UPDATE in script:
        ending = (last, script[Part.REDUCE], script[Part.UPDATE])
        end = _least(ending, BEHIND) - own[len(passes) - 1]
    return _Stage(own[0], own[1], own[2], max(0.0, begin), max(0.0, end))


def _least(sections: Sequence[Section], kinds: Collection[Kind]) -> float:
    return max(_path(sections, kinds), _busiest(sections)) + _waits(sections)


def _path(sections: Sequence[Section], kinds: Collection[Kind]) -> float:
    """The longest way through sections, one after the other; tasks of other kinds take no time."""
    ends: dict[Part, list[float]] = {}
    lanes: dict[tuple[Kind, int], float] = {}
    longest = 0.0
    for section in sections:
        own = ends[section.part] = [0.0] * len(section.tasks)
        for number, task in enumerate(section.tasks):
            end = 0.0
            for need in section.needs[number]:
                if need.part in ends and not need.steps:
                    end = max(end, ends[need.part][need.number])
            if task.kind in kinds:
                lane = task.kind, task.link
                end = lanes[lane] = max(end, lanes.get(lane, 0.0)) + task.ns
            own[number] = end
            longest = max(longest, end)
    return longest


def _busiest(sections: Sequence[Section]) -> float:
    """What the link with most to do has to do."""
    busy: dict[int, float] = {}
    for section in sections:
        for task in section.tasks:
            if task.kind is Kind.ACTIVATION or task.kind in BESIDE:
                busy[task.link] = busy.get(task.link, 0.0) + task.ns
    return max(busy.values(), default=0.0)


def _waits(sections: Sequence[Section]) -> float:
    """Of activations, for buckets that are on their link when they come."""
    tasks = [task for section in sections for task in section.tasks]
    path = _path(sections, WORK)
    total = 0.0
    for link in {task.link for task in tasks if task.kind is Kind.ACTIVATION}:
        urgent = [t.ns for t in tasks if t.kind is Kind.ACTIVATION and t.link == link]
        buckets = [t.ns for t in tasks if t.kind in BESIDE and t.link == link]
        room = path - sum(urgent)
        if not buckets:
            continue
        share = min(1.0, sum(buckets) / room) if room > 0 else 1.0
        rest = sum(ns * ns for ns in buckets) / (2 * sum(buckets))
        total += min(len(urgent) * share, len(buckets)) * rest
    return total


def _transfers(script: Script) -> tuple[float, float]:
    """ns of what a stage sends in one microbatch: to the next stage, and back to the one before."""
    back = script.get(Part.B) or script.get(Part.I) or Section(Part.B)
    onward, home = (
        sum(task.ns for task in own.tasks if task.kind is Kind.PIPELINE)
        for own in (script[Part.F], back)
    )
    return onward, home
