"""The simulation document: times and memory of a simulated step, by rank."""

from __future__ import annotations

from typing import get_args

import numpy as np

from meshwright.schedules.schedule import stages_on
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.simulation import Exposure, LinkUse, RankStep, Simulation, Waited
from meshwright_solver.simulation.step import SimulatedStep, step_of
from meshwright_solver.simulation.tasks import Kind, StreamTask

SHOWN = 20  # chosen: exposures that a person reads
KINDS: dict[Waited, Kind] = {name: Kind[name.upper()] for name in get_args(Waited)}
ON_LEVELS = (Kind.ACTIVATION, Kind.PARAMETER, Kind.GRADIENT)
WAITED: dict[Kind, Waited] = {kind: name for name, kind in KINDS.items()}


def simulate_documents(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
) -> Simulation:
    """Simulate a plan's step. Raises PlanError where the plan does not fit the documents."""
    return simulation_of(step_of(plan, graph, topology, setup, calibration))


def simulation_of(step: SimulatedStep) -> Simulation:
    """The simulation document of a step."""
    return Simulation(
        plan=step.plan.id,
        step_ns=step.ns,
        predicted_ns=step.plan.cost.step_ns,
        tasks=len(step.run.ends),
        ranks=tuple(rank_step(step, rank) for rank in range(step.program.schedule.ranks)),
        exposures=_exposures(step),
    )


def rank_step(step: SimulatedStep, rank: int) -> RankStep:
    """One rank's share of the step."""
    program, run = step.program, step.run
    ns, kind = run.ends - run.starts, program.kind
    here = program.rank == rank
    waits = step.waits.by_kind[rank]
    curve = step.curve(rank)
    static = step.static_bytes(rank)
    peak = curve.peak
    return RankStep(
        rank=rank,
        stages=tuple(stages_on(program.schedule.rank_of, rank)),
        compute_ns=float(ns[here & (kind == Kind.COMPUTE)].sum()),
        exposed_ns={name: float(waits[traffic]) for name, traffic in KINDS.items()},
        bubble_ns=float(waits[Kind.COMPUTE]),
        communication_ns={
            name: float(ns[here & (kind == traffic)].sum()) for name, traffic in KINDS.items()
        },
        static_bytes=static,
        saved_bytes=round(float(curve.saved.max())),
        working_bytes=round(float(curve.working.max())),
        peak_bytes=static + round(float(curve.total[peak])),
        peak_ns=float(curve.ns[peak]),
        capacity_bytes=step.plan.cost.memory_bytes.capacity,
        links=_links(step, rank),
    )


def _links(step: SimulatedStep, rank: int) -> tuple[LinkUse, ...]:
    """The use of a rank's links, slowest first; transfers to other stages come last."""
    program, run, waited = step.program, step.run, step.waits.by_task
    ns, here = run.ends - run.starts, program.rank == rank
    of_levels = np.isin(program.kind, ON_LEVELS)
    uses = [
        (name, here & of_levels & (np.maximum(program.link, 0) == number))
        for number, name in enumerate(step.levels[rank])
    ]
    uses.append(("pipeline", here & (program.kind == Kind.PIPELINE)))
    return tuple(
        LinkUse(link=name, busy_ns=float(ns[tasks].sum()), exposed_ns=float(waited[tasks].sum()))
        for name, tasks in uses
        if ns[tasks].any()
    )


def _exposures(step: SimulatedStep) -> tuple[Exposure, ...]:
    totals: dict[tuple[str, str, Kind], list[float]] = {}
    ns, waited = step.run.ends - step.run.starts, step.waits.by_task
    for rank in step.program.made:
        for place in rank:
            tasks = step.program.section(place).tasks
            lost = waited[place.first : place.first + len(tasks)]
            for number in np.flatnonzero(lost).tolist():
                task: StreamTask = tasks[number]
                total = totals.setdefault((task.name, task.what, task.kind), [0.0, 0.0])
                total[0] += float(lost[number])
                total[1] += float(ns[place.first + number])
    worst = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))[:SHOWN]
    return tuple(
        Exposure(name=name, what=what, traffic=WAITED[kind], waited_ns=total[0], ns=total[1])
        for (name, what, kind), total in worst
    )
