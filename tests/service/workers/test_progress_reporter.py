"""Progress on its way to the worker."""

from __future__ import annotations

import json
from multiprocessing import Pipe

from meshwright.schema import Progress
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.workers.progress_reporter import Reporter
from tests.service.conftest import until


class Heard:
    """What was written, as the costs that it tells."""

    def __init__(self) -> None:
        self._line, written = Pipe(duplex=False)
        self.messages = ParentMessages(written)
        self._costs: list[float] = []

    def costs(self) -> list[float]:
        while self._line.poll():
            said = json.loads(self._line.recv_bytes())
            self._costs.append(said["progress"]["incumbent_ns"])
        return self._costs


def progress(cost_ns: float, *, phase: str = "p", done: int = 0) -> Progress:
    return Progress(phase=phase, done=done, total=2, incumbent_ns=cost_ns)


def test_of_many_reports_the_first_is_told_at_once_and_the_last_for_sure() -> None:
    heard = Heard()
    with Reporter(heard.messages) as report:
        report(progress(100))
        assert heard.costs() == [100]
        for cost_ns in range(99, 89, -1):
            report(progress(cost_ns))
        until(lambda: heard.costs()[-1] == 90)
        assert len(heard.costs()) < 11
        report(progress(80))
        until(lambda: heard.costs()[-1] == 80)


def test_a_new_phase_and_its_end_are_told_at_once() -> None:
    heard = Heard()
    with Reporter(heard.messages) as report:
        report(progress(9))
        report(progress(8, phase="q"))
        report(progress(7, phase="q", done=2))
    assert heard.costs() == [9, 8, 7]


def test_after_the_end_nothing_is_told() -> None:
    heard = Heard()
    with Reporter(heard.messages) as report:
        report(progress(9))
        report(progress(8))
    report(progress(7, phase="q"))
    assert heard.costs() == [9]
