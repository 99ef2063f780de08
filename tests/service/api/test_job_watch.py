"""Requests that wait for jobs: one query for all of them, and tenants are woken in turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import event

from meshwright_service.api.job_watch import Follower, JobWatch
from meshwright_service.api.wakes import Wakes
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant
from tests.service.job_table import Table

PATIENCE_S = 60  # chosen: who is not woken waits so long, and a busy machine not half of it


def statements(table: Table) -> list[str]:
    """The SELECTs that the database is asked from now on."""
    asked: list[str] = []

    def listen(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("SELECT"):
            asked.append(statement)

    event.listen(table.database.engine, "before_cursor_execute", listen)
    return asked


@pytest.mark.parametrize("waiting", [1, 200])
def test_the_number_of_queries_does_not_grow_with_those_who_wait(
    table: Table, waiting: int
) -> None:
    job = table.submit()
    asked = statements(table)

    async def wait() -> None:
        watch = JobWatch(table.jobs, threading.Event())
        with ExitStack() as stack:
            for _ in range(waiting):
                stack.enter_context(watch.follow(DEFAULT_TENANT, job))
            while not asked:
                await asyncio.sleep(0.01)
            await asyncio.sleep(1)

    asyncio.run(wait())
    assert len(asked) <= 30  # a look in 0.1 s; each request by itself would make 1,000


def test_every_follower_sees_a_change_and_all_share_one_read(table: Table) -> None:
    job, other = table.submit(), table.submit()
    reads: list[str] = []

    def read() -> str:
        reads.append(job)
        return str(table.jobs.get(DEFAULT_TENANT, job).state)

    async def until_running(follower: Follower) -> None:
        while await follower.read("state", read) != "running":
            await follower.change(PATIENCE_S)

    async def wait() -> None:
        watch = JobWatch(table.jobs, threading.Event())
        with ExitStack() as stack:
            all_ = [stack.enter_context(watch.follow(DEFAULT_TENANT, job)) for _ in range(50)]
            quiet = stack.enter_context(watch.follow(DEFAULT_TENANT, other))
            running = [asyncio.create_task(until_running(one)) for one in all_]
            await quiet.change(PATIENCE_S)  # the first look tells what the jobs are
            before = len(reads)
            assert {table.claim().job, table.claim().job} == {job, other}
            await asyncio.wait_for(asyncio.gather(*running), PATIENCE_S)
            assert len(reads) - before <= 2

    asyncio.run(wait())


def test_stopping_wakes_every_follower_at_once(table: Table) -> None:
    job = table.submit()
    stopping = threading.Event()

    async def wait() -> float:
        watch = JobWatch(table.jobs, stopping)
        with ExitStack() as stack:
            all_ = [stack.enter_context(watch.follow(DEFAULT_TENANT, job)) for _ in range(300)]
            for one in all_:
                await one.change(PATIENCE_S)  # the first look
            stopping.set()
            began = time.monotonic()
            await asyncio.gather(*(one.change(PATIENCE_S) for one in all_))
            return time.monotonic() - began

    assert asyncio.run(wait()) < PATIENCE_S / 2


def test_a_job_that_is_deleted_wakes_its_followers(table: Table) -> None:
    async def wait() -> None:
        watch = JobWatch(table.jobs, threading.Event())
        with watch.follow(DEFAULT_TENANT, table.submit()) as follower:
            await follower.change(PATIENCE_S)
            with table.database.writing() as connection:
                connection.exec_driver_sql("DELETE FROM job_events")
                connection.exec_driver_sql("DELETE FROM jobs")
            began = time.monotonic()
            await follower.change(PATIENCE_S)
            assert time.monotonic() - began < PATIENCE_S / 2

    asyncio.run(wait())


class Sleeper:
    """Notes its name when it is woken."""

    def __init__(self, name: str, woken: list[str]) -> None:
        self._name, self._woken = name, woken

    def wake(self) -> None:
        self._woken.append(self._name)


def woken(add: Callable[[Wakes, list[str]], None], count: int) -> list[str]:
    async def run() -> list[str]:
        names: list[str] = []
        wakes = Wakes()
        add(wakes, names)
        while len(names) < count:
            await asyncio.sleep(0.005)
        return names

    return asyncio.run(run())


def test_tenants_are_woken_in_turn() -> None:
    def add(wakes: Wakes, names: list[str]) -> None:
        for number in range(20):
            wakes.add(Tenant("many"), Sleeper(f"many {number}", names))
        wakes.add(Tenant("few"), Sleeper("few 0", names))
        wakes.add(Tenant("few"), Sleeper("few 1", names))

    names = woken(add, 22)
    assert names[:5] == ["many 0", "few 0", "many 1", "few 1", "many 2"]
    assert sorted(names[4:]) == sorted(f"many {number}" for number in range(2, 20))


def test_one_that_is_queued_is_woken_once() -> None:
    def add(wakes: Wakes, names: list[str]) -> None:
        first = Sleeper("first", names)
        wakes.add(DEFAULT_TENANT, first)
        wakes.add(DEFAULT_TENANT, first)
        wakes.add(DEFAULT_TENANT, Sleeper("second", names))

    assert woken(add, 2) == ["first", "second"]
