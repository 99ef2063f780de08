"""The job table as those see it who ask: cancelled jobs, answers kept, events."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import NotFound, Plan, Progress
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs import cancellation
from meshwright_service.jobs.jobs import has_ended
from meshwright_service.jobs.leases import Claim
from meshwright_service.store import documents
from meshwright_service.store.encoded_documents import stored_plan
from tests.service.job_table import Table


def test_a_cancelled_job_is_nobodys(table: Table, plan: Plan) -> None:
    job = table.submit()
    claim = table.claim()
    assert table.jobs.cancel(DEFAULT_TENANT, job).state == "cancelled"
    assert table.leases.succeed(claim, stored_plan(plan)) == "not ours"
    assert table.jobs.get(DEFAULT_TENANT, job).state == "cancelled"


def test_the_plan_of_a_cancelled_search_is_kept_once(table: Table, plan: Plan) -> None:
    job = table.submit()
    claim = table.claim()
    found: dict[str, Any] = {"seconds": [0.5], "ended_early": True}
    assert not cancellation.keep(table.database, claim, stored_plan(plan), **found)  # it runs
    table.jobs.cancel(DEFAULT_TENANT, job)
    assert cancellation.is_cancelled(table.database, claim)
    older = Claim(DEFAULT_TENANT, claim.job, claim.attempt - 1, {})
    assert not cancellation.keep(table.database, older, stored_plan(plan), **found)
    assert cancellation.keep(table.database, claim, stored_plan(plan), **found)
    assert not cancellation.keep(table.database, claim, stored_plan(plan), **found)
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.state, row.plan, row.outcome) == ("cancelled", plan.id, "optimal")
    assert (row.seconds, row.ended_early) == ([0.5], True)
    with table.database.reading() as connection:
        assert documents.exists(connection, DEFAULT_TENANT, "plan", plan.id)


def test_a_plan_that_was_cut_short_by_a_cancel_answers_nobody_else(
    table: Table, plan: Plan
) -> None:
    for ended_early in (True, False):
        job = table.submit()
        claim = table.claim()
        table.jobs.cancel(DEFAULT_TENANT, job)
        cancellation.keep(
            table.database, claim, stored_plan(plan), seconds=(), ended_early=ended_early
        )
        with table.database.reading() as connection:
            answer = table.jobs.find(connection, DEFAULT_TENANT, "request_1")
        assert (answer is None) == ended_early


def test_a_cancelled_job_has_ended_when_its_worker_lets_go_or_its_lease_runs_out(
    table: Table,
) -> None:
    queued = table.submit()
    assert has_ended(table.jobs.cancel(DEFAULT_TENANT, queued))
    first = table.submit()
    claim = table.claim()
    assert not has_ended(table.jobs.get(DEFAULT_TENANT, first))
    cancellation.let_go(table.database, claim)  # of what is not cancelled: nothing
    assert table.leases.holds(claim)
    assert not has_ended(table.jobs.cancel(DEFAULT_TENANT, first))
    cancellation.let_go(table.database, claim)
    assert has_ended(table.jobs.get(DEFAULT_TENANT, first))
    second = table.submit()
    table.claim()
    table.jobs.cancel(DEFAULT_TENANT, second)
    table.turn_clock(11)
    assert has_ended(table.jobs.get(DEFAULT_TENANT, second))


def test_cancel_leaves_what_has_ended_as_it_is(table: Table, plan: Plan) -> None:
    job = table.submit()
    table.leases.succeed(table.claim(), stored_plan(plan))
    assert table.jobs.cancel(DEFAULT_TENANT, job).state == "succeeded"
    with pytest.raises(NotFound, match="job_0"):
        table.jobs.cancel(DEFAULT_TENANT, "job_0")


def test_events_tell_the_life_of_a_job(table: Table, plan: Plan) -> None:
    job = table.submit()
    claim = table.claim()
    table.leases.progress(claim, Progress(phase="searching", done=1, total=2))
    table.leases.lost(claim, trace="")
    table.leases.succeed(table.claim(), stored_plan(plan))
    states = ["queued", "running", None, "queued", "running", "succeeded"]
    assert table.events(job) == states
