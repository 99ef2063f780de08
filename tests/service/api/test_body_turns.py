"""Turns: few at one time, by tenant, and none is lost where a request gives up."""

from __future__ import annotations

import asyncio

import pytest

from meshwright_service.api.body_turns import BodyTurns
from meshwright_service.common.errors import Busy
from meshwright_service.common.tenant import Tenant

ONE, TWO = Tenant("one"), Tenant("two")


def test_another_tenant_waits_for_one_turn_of_many() -> None:
    order: list[str] = []

    async def run() -> None:
        turns = BodyTurns(1, wait_s=20)

        async def work(tenant: Tenant) -> None:
            async with turns.turn(tenant):
                order.append(tenant)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for tenant in (ONE, ONE, ONE, ONE, TWO, TWO):
                group.create_task(work(tenant))

    asyncio.run(run())
    assert order == ["one", "two", "one", "two", "one", "one"]


def test_as_many_turns_run_as_there_are_slots() -> None:
    async def run() -> None:
        turns = BodyTurns(2, wait_s=20)
        async with turns.turn(ONE), turns.turn(ONE):
            third = asyncio.create_task(_enter(turns, TWO))
            await asyncio.sleep(0)
            assert turns.waiting() == 1
        await third

    asyncio.run(run())


def test_a_wait_has_an_end() -> None:
    async def run() -> None:
        turns = BodyTurns(1, wait_s=0.01)
        async with turns.turn(ONE):
            with pytest.raises(Busy, match=r"no turn within 0\.01 s"):
                await _enter(turns, TWO)
            assert turns.waiting() == 0
        await _enter(turns, TWO)

    asyncio.run(run())


@pytest.mark.parametrize("is_late", [False, True])
def test_a_request_that_is_cancelled_leaves_its_turn_to_the_next(is_late: bool) -> None:
    async def run() -> None:
        turns = BodyTurns(1, wait_s=20)
        async with turns.turn(ONE):
            gone = asyncio.create_task(_enter(turns, ONE))
            following = asyncio.create_task(_enter(turns, ONE))
            await asyncio.sleep(0)
            if not is_late:
                gone.cancel()
                await asyncio.sleep(0)
        if is_late:  # the turn has come to it, and it has not run since
            gone.cancel()
        async with asyncio.timeout(20):
            await following
        assert gone.cancelled() or gone.cancelling()
        await _enter(turns, TWO)

    asyncio.run(run())


async def _enter(turns: BodyTurns, tenant: Tenant) -> None:
    async with turns.turn(tenant):
        pass
