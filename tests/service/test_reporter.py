"""Progress on its way to the worker."""

from __future__ import annotations

import io
import json

from meshwright.schema import Progress
from service.child_process import Lines
from service.reporter import INTERVAL_S, Reporter
from tests.service.conftest import until


class Pipe:
    """What was written, as the costs that it tells."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def costs(self) -> list[float]:
        lines = self.stream.getvalue().splitlines()
        return [json.loads(line)["progress"]["incumbent_ns"] for line in lines]


def progress(cost_ns: float, *, phase: str = "p", done: int = 0) -> Progress:
    return Progress(phase=phase, done=done, total=2, incumbent_ns=cost_ns)


def test_of_many_reports_the_first_is_told_at_once_and_the_last_for_sure() -> None:
    pipe = Pipe()
    with Reporter(Lines(pipe.stream)) as report:
        report(progress(100))
        assert pipe.costs() == [100]
        for cost_ns in range(99, 89, -1):
            report(progress(cost_ns))
        until(lambda: pipe.costs()[-1] == 90, seconds=50 * INTERVAL_S)
        assert len(pipe.costs()) < 11
        report(progress(80))
        until(lambda: pipe.costs()[-1] == 80, seconds=50 * INTERVAL_S)


def test_a_new_phase_and_its_end_are_told_at_once() -> None:
    pipe = Pipe()
    with Reporter(Lines(pipe.stream)) as report:
        report(progress(9))
        report(progress(8, phase="q"))
        report(progress(7, phase="q", done=2))
    assert pipe.costs() == [9, 8, 7]


def test_after_the_end_nothing_is_told() -> None:
    pipe = Pipe()
    with Reporter(Lines(pipe.stream)) as report:
        report(progress(9))
        report(progress(8))
    report(progress(7, phase="q"))
    assert pipe.costs() == [9]
