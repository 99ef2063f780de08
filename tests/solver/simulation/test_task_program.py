"""Schedules through the simulator: closed forms of bubbles, and the run of whole passes."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schedules.kinds import one_f_one_b, schedule
from meshwright.schedules.schedule import ScheduleTable
from meshwright_solver.pipeline.schedule_run import Durations
from meshwright_solver.pipeline.schedule_run import run as run_passes
from meshwright_solver.simulation.events import run
from meshwright_solver.simulation.stalls import waits_of
from meshwright_solver.simulation.task_program import PREFETCH_BYTES, TaskProgram
from meshwright_solver.simulation.tasks import Gather, Kind, Need, Section, SectionKind
from tests.solver.synthetic import moved, program, section, work

KINDS = [("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("interleaved_1f1b", 4), ("zb_h1", 1)]


def bubbles(made: TaskProgram) -> tuple[float, list[float]]:
    """The step, and what every rank waits for others."""
    ran = run(made.lines)
    return float(ran.ends.max()), waits_of(made, ran).by_kind[:, Kind.COMPUTE].tolist()


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 8), (4, 12), (8, 32)])
@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_bubbles_have_their_closed_forms(
    kind: str, count: int, ranks: int, microbatches: int
) -> None:
    """Equal stages, nothing moved; F, I, W of a rank are 4, 5 and 3."""
    forward, inputs, weights = 4.0, 5.0, 3.0
    own = schedule(kind, ranks, microbatches, count)
    lengths = [(forward / count, inputs / count, weights / count)] * own.stages
    ns, waits = bubbles(program(own, lengths))
    whole = (ranks - 1) * (forward + inputs + weights) / count
    expected = (ranks - 1) * (forward + inputs - weights) if kind == "zb_h1" else whole
    assert waits == pytest.approx([expected] * ranks)
    assert ns == pytest.approx(microbatches * (forward + inputs + weights) + expected)


def test_a_v_waits_only_at_its_ends() -> None:
    """zb_v with all passes of length 1 on 4 ranks: 8 microbatches take 48, the last rank begins
    when the first microbatch has passed 3 others."""
    ns, waits = bubbles(program(schedule("zb_v", 4, 8, 2), [(1.0, 1.0, 1.0)] * 8))
    assert waits == [ns - 48.0] * 4
    made = run_passes(
        schedule("zb_v", 4, 8, 2),
        Durations(np.ones(8), np.ones(8), np.ones(8), np.zeros((2, 7))),
    )
    assert ns == made.ns


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("kind", "count"), [*KINDS, ("zb_v", 2)])
def test_uneven_stages_run_as_their_passes_do(kind: str, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    ranks = int(random.integers(2, 5))
    own: ScheduleTable = schedule(kind, ranks, ranks * int(random.integers(1, 4)), count)
    lengths, ways = random.random((3, own.stages)), random.random((2, own.stages - 1))
    made = program(
        own,
        [tuple(row) for row in lengths.T.tolist()],  # type: ignore[misc]  # three each
        ways[0].tolist(),
        ways[1].tolist(),
    )
    passes = run_passes(own, Durations(lengths[0], lengths[1], lengths[2], ways))
    ran = run(made.lines)
    assert ran.ends.max() == pytest.approx(passes.ns)
    works = made.kind == Kind.COMPUTE
    assert ran.starts[works] == pytest.approx(passes.starts)
    waits = waits_of(made, ran).by_kind
    for rank in range(ranks):
        waited = waits[rank, Kind.COMPUTE] + waits[rank, Kind.PIPELINE]
        assert waited == pytest.approx(passes.bubble_ns(rank))


def test_a_transfer_is_told_from_the_work_before_it() -> None:
    """gpipe, 2 ranks, 1 microbatch; F 2, B 4, transfers 1 and 3: rank 1 waits 2 for rank 0 and 1
    for the transfer, then after its B until the end; rank 0 waits for F and B there and both ways.
    """
    made = program(schedule("gpipe", 2, 1), [(2.0, 4.0, 0.0)] * 2, [1.0], [3.0])
    waits = waits_of(made, run(made.lines)).by_kind
    assert waits[0, [Kind.COMPUTE, Kind.PIPELINE]].tolist() == [6.0, 4.0]
    assert waits[1, [Kind.COMPUTE, Kind.PIPELINE]].tolist() == [2.0 + 7.0, 1.0]


def alone(*sections: Section) -> TaskProgram:
    """One rank that runs these sections over one microbatch."""
    return TaskProgram(one_f_one_b(1, 1), ({own.part: own for own in sections},), 1)


def test_gathers_hide_behind_work_and_what_is_left_is_waited_for() -> None:
    """Gathers of 3, 3 and 9; work of 5 each. The first is waited for, the second hides behind the
    first work, the third begins when the second has ended: 6 to 15; work ends at 8 and 13."""
    needs = [(Need(SectionKind.F, k),) for k in (0, 2, 4)]
    forward = section(
        SectionKind.F,
        *(
            pair
            for name, ns, own in zip("abc", (3.0, 3.0, 9.0), needs, strict=True)
            for pair in ((moved(name, Kind.PARAMETER, ns), ()), (work(name, 5.0), own))
        ),
    )
    backward = section(SectionKind.B, (work("back", 1.0), ()))
    made = alone(forward, backward)
    ran = run(made.lines)
    assert ran.starts.tolist() == [0.0, 3.0, 3.0, 8.0, 6.0, 15.0, 20.0]
    waits = waits_of(made, ran)
    assert waits.by_kind[0].tolist() == [0.0, 0.0, 3.0 + 2.0, 0.0, 0.0, 0.0]
    assert waits.by_task.tolist() == [3.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]


def test_no_more_is_gathered_ahead_than_there_is_room_for() -> None:
    """Of gathers as large as the room for them, one runs ahead: the third waits for the first's
    reader, not for the second's."""
    tasks = []
    for k in range(4):
        tasks += [
            (moved(f"g{k}", Kind.PARAMETER, 1.0), ()),
            (work("w", 5.0), (Need(SectionKind.F, 2 * k),)),
        ]
    forward = section(SectionKind.F, *tasks)
    forward.gathers += [Gather(2 * k, 2 * k + 1, PREFETCH_BYTES) for k in range(4)]
    ran = run(alone(forward, section(SectionKind.B, (work("back", 1.0), ()))).lines)
    assert ran.starts[:8:2].tolist() == [0.0, 1.0, 6.0, 11.0]
    forward.gathers[:] = [Gather(2 * k, 2 * k + 1, PREFETCH_BYTES // 4) for k in range(4)]
    ran = run(alone(forward, section(SectionKind.B, (work("back", 1.0), ()))).lines)
    assert ran.starts[:8:2].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_what_is_read_to_the_end_holds_nobody_up() -> None:
    """A parameter that the first op and the last read: the gathers between go on."""
    forward = section(
        SectionKind.F,
        (moved("tied", Kind.PARAMETER, 1.0), ()),
        (moved("a", Kind.PARAMETER, 1.0), ()),
        (work("a", 1.0), (Need(SectionKind.F, 1),)),
        (moved("b", Kind.PARAMETER, 1.0), ()),
        (work("b", 1.0), (Need(SectionKind.F, 3),)),
        (work("tied", 1.0), (Need(SectionKind.F, 0),)),
    )
    forward.gathers += [Gather(k, r, PREFETCH_BYTES) for k, r in ((0, 5), (1, 2), (3, 4))]
    ran = run(alone(forward, section(SectionKind.B, (work("back", 1.0), ()))).lines)
    assert ran.ends.max() == 6.0
