"""Programs of hand-made sections, for the tests of the simulator."""

from __future__ import annotations

from meshwright.schedules.schedule import ScheduleTable
from meshwright_solver.simulation.stage_tasks import Script
from meshwright_solver.simulation.task_program import TaskProgram
from meshwright_solver.simulation.tasks import Kind, Need, Section, SectionKind, StreamTask


def work(name: str, ns: float) -> StreamTask:
    return StreamTask(name, "forward", Kind.COMPUTE, ns)


def moved(name: str, kind: Kind, ns: float, link: int = 0, payload: int = 0) -> StreamTask:
    return StreamTask(name, "all_gather", kind, ns, link, payload)


def section(part: SectionKind, *tasks: tuple[StreamTask, tuple[Need, ...]]) -> Section:
    made = Section(part)
    for task, needs in tasks:
        made.add(task, needs)
    return made


def stage_script(
    schedule: ScheduleTable,
    stage: int,
    lengths: tuple[float, float, float],
    there: float = 0.0,
    back: float = 0.0,
) -> Script:
    """A stage of one op a pass. there, back: of transfers between it and the stage before."""
    forward, inputs, weights = lengths
    first, last = stage == 0, stage == schedule.stages - 1
    back_part = SectionKind.I if schedule.is_split else SectionKind.B
    given = () if first else (Need(SectionKind.F, 0, -1),)
    found = {SectionKind.F: section(SectionKind.F, (work("f", forward), given))}
    if not last:
        found[SectionKind.F].add(moved("to", Kind.PIPELINE, there, -1), [Need(SectionKind.F, 0)])
    given = (Need(SectionKind.F, 0),) if last else (Need(back_part, 0, 1), Need(SectionKind.F, 0))
    length = inputs if schedule.is_split else inputs + weights
    found[back_part] = section(back_part, (work("b", length), given))
    if not first:
        found[back_part].add(moved("back", Kind.PIPELINE, back, -1), [Need(back_part, 0)])
    if schedule.is_split:
        found[SectionKind.W] = section(
            SectionKind.W, (work("w", weights), (Need(SectionKind.I, 0),))
        )
    return found


def program(
    schedule: ScheduleTable,
    lengths: list[tuple[float, float, float]],
    there: list[float] | None = None,
    back: list[float] | None = None,
) -> TaskProgram:
    """lengths: forward, inputs, weights of every stage. there, back: of transfers over the edges
    between stages, none by default."""
    edges = schedule.stages - 1
    onward, home = [*(there or [0.0] * edges), 0.0], [0.0, *(back or [0.0] * edges)]
    scripts = [
        stage_script(schedule, stage, own, onward[stage], home[stage])
        for stage, own in enumerate(lengths)
    ]
    return TaskProgram(schedule, scripts, 1)
