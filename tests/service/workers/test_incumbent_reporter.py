"""How often plans of a search that goes on are made, and which are sent."""

from __future__ import annotations

import signal
from multiprocessing import Pipe

import pytest

from meshwright.common.stop_signal import StopSignal
from meshwright.schema import Answer, Plan, Request
from meshwright_service.processes.child_main import ParentMessages
from meshwright_service.workers.incumbent_reporter import LEAST_S, SHARE, IncumbentReporter
from tests.service.samples import REQUEST


class Search:
    """A search whose clock is turned, and whose keeper's messages are counted."""

    def __init__(self, plan: Plan) -> None:
        self.heard, said = Pipe(duplex=False)
        self.now = 0.0
        self.stop = StopSignal(signal.SIGTERM)
        self.keeper = IncumbentReporter(ParentMessages(said), self.stop, 5, clock=lambda: self.now)
        self.plan = plan
        self.request = Request.model_validate(REQUEST)
        self.made = 0

    def offer(self, step_ns: float, *, takes_s: float = 0) -> bool:
        """Whether the plan was made; all that was sent is read."""
        before = self.made

        def make() -> Answer:
            self.made += 1
            self.now += takes_s
            cost = self.plan.cost.model_copy(update={"step_ns": step_ns})
            return Answer(plan=self.plan.model_copy(update={"cost": cost}))

        self.keeper(self.request, make)
        return self.made > before

    def sent(self) -> int:
        count = 0
        while self.heard.poll():
            self.heard.recv_bytes()
            count += 1
        return count


@pytest.fixture
def search(plan: Plan) -> Search:
    return Search(plan)


def test_none_is_made_in_the_first_seconds(search: Search) -> None:
    search.now = 4.9
    assert not search.offer(50)
    search.now = 5
    assert search.offer(50)
    assert search.sent() == 1


def test_one_that_took_long_is_the_last_for_as_much_longer(search: Search) -> None:
    search.now = 5
    assert search.offer(50, takes_s=2)
    search.now = 7 + 2 / SHARE - 0.1
    assert not search.offer(40)
    search.now += 0.2
    assert search.offer(40)
    search.now += LEAST_S - 0.1
    assert not search.offer(30)
    assert search.sent() == 2


def test_one_that_is_no_better_is_not_sent(search: Search) -> None:
    search.now = 5
    assert search.offer(50)
    search.now = 10
    assert search.offer(50)
    assert search.sent() == 1


def test_none_is_made_once_the_search_is_asked_to_end(search: Search) -> None:
    search.now, search.stop.asked = 5, True
    assert not search.offer(50)
    assert not search.stop.heeded


def test_a_search_without_memory_for_another_plan_goes_on_without(search: Search) -> None:
    search.now = 5

    def make() -> Answer:
        raise MemoryError

    search.keeper(search.request, make)
    search.now = 1e6
    assert not search.offer(50)
