"""Leases: takeovers, fences, losses."""

from __future__ import annotations

import pytest

from meshwright.schema import Certificate, Infeasible, Plan, Progress
from meshwright_service.common.errors import Internal
from meshwright_service.common.oom_kills import FOR_MEMORY
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs import cancellation
from meshwright_service.jobs.losses import RetryLimits
from meshwright_service.store import certificates, documents
from meshwright_service.store.encoded_documents import stored_plan
from tests.service.job_table import Table


def test_the_oldest_job_is_claimed_first_and_once(table: Table) -> None:
    first = table.submit()
    table.turn_clock(1)
    second = table.submit()
    assert [table.claim().job, table.claim().job] == [first, second]
    assert table.leases.claim("w") is None


def test_takeover_starts_when_the_lease_runs_out(table: Table) -> None:
    job = table.submit()
    mine = table.claim("first")
    table.turn_clock(9)
    assert table.leases.claim("second") is None
    table.turn_clock(2)
    theirs = table.claim("second")
    assert (theirs.job, theirs.attempt) == (job, mine.attempt + 1)


def test_a_clock_that_is_set_back_holds_no_job_for_as_long(table: Table) -> None:
    job = table.submit()
    table.turn_clock(86400)
    mine = table.claim("first")
    table.turn_clock(-5)
    assert table.leases.claim("second") is None  # a few seconds more for its owner
    table.turn_clock(-86395)
    theirs = table.claim("second")
    assert (theirs.job, theirs.attempt) == (job, mine.attempt + 1)
    assert not table.leases.renew(mine)


def test_a_renewed_lease_is_not_taken_over(table: Table) -> None:
    table.submit()
    claim = table.claim()
    table.turn_clock(9)
    assert table.leases.renew(claim)
    table.turn_clock(9)
    assert table.leases.claim("second") is None


def test_an_older_attempt_may_write_nothing(table: Table, plan: Plan) -> None:
    table.submit()
    mine = table.claim("first")
    table.turn_clock(11)
    table.claim("second")
    assert not table.leases.holds(mine)
    assert not table.leases.renew(mine)
    assert not table.leases.progress(mine, Progress(phase="late", done=1, total=1))
    assert table.leases.succeed(mine, stored_plan(plan)) == "not ours"
    late = Certificate(plan=plan.id, outcome="verified")
    assert not table.leases.certify(mine, late)
    assert not table.leases.fail(mine, Internal("late"))
    assert not table.leases.release(mine)
    assert not table.leases.lost(mine, trace="")
    assert not cancellation.keep(
        table.database, mine, stored_plan(plan), seconds=(), ended_early=True
    )
    with table.database.reading() as connection:
        # stored with its job or not
        assert not documents.exists(connection, DEFAULT_TENANT, "plan", plan.id)
    assert table.jobs.get(DEFAULT_TENANT, mine.job).state == "running"


def test_success_stores_the_plan_with_the_job(table: Table, plan: Plan) -> None:
    job = table.submit()
    assert table.leases.succeed(table.claim(), stored_plan(plan)) == "ended"
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.state, row.outcome, row.plan) == ("succeeded", "optimal", plan.id)
    with table.database.reading() as connection:
        assert documents.exists(connection, DEFAULT_TENANT, "plan", plan.id)


def test_a_job_that_verifies_goes_on_with_its_plan(table: Table, plan: Plan) -> None:
    job = table.submit(verify=True)
    first = table.claim("first")
    assert table.leases.succeed(first, stored_plan(plan)) == "to verify"
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.state, row.plan) == ("running", plan.id)
    table.turn_clock(11)
    second = table.claim("second")
    assert second.plan == plan.id
    certificate = Certificate(plan=plan.id, outcome="failed", detail="wrong")
    assert not table.leases.certify(first, certificate)
    assert table.leases.certify(second, certificate)
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.state, row.outcome, row.certificate["outcome"]) == (
        "succeeded",
        "optimal",
        "failed",
    )
    with table.database.reading() as connection:
        assert certificates.read(connection, DEFAULT_TENANT, plan.id) == certificate


def test_two_requests_may_have_one_plan(table: Table, plan: Plan) -> None:
    for _ in range(2):
        table.submit()
        assert table.leases.succeed(table.claim(), stored_plan(plan)) == "ended"


def test_infeasible_ends_the_job_with_its_reason(table: Table) -> None:
    job = table.submit()
    table.leases.succeed_without_plan(table.claim(), Infeasible(constraint="pins", detail="why"))
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.outcome, row.infeasible["detail"], row.plan) == ("infeasible", "why", None)


def test_a_job_that_loses_its_searches_fails_in_the_end(table: Table) -> None:
    job = table.submit()
    assert table.leases.lost(table.claim(), trace="killed")
    assert table.jobs.get(DEFAULT_TENANT, job).state == "queued"
    assert table.leases.lost(table.claim(), trace="killed")
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert row.state == "failed"
    assert row.problem["type"].endswith("worker-lost")
    assert table.leases.claim("w") is None


def test_leases_that_run_out_have_a_limit_of_their_own(table: Table) -> None:
    job = table.submit()
    for lapses in range(1, 5):  # of a job whose searches may be lost twice
        assert table.claim().attempt == lapses
        table.turn_clock(11)
    assert table.leases.claim("w") is None
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.state, row.losses, row.lapses) == ("failed", 0, 4)
    assert "4 attempts were cut off" in row.problem["detail"]
    assert "memory" not in row.problem["detail"]


def test_pauses_between_attempts_grow(table: Table) -> None:
    table.try_jobs(RetryLimits(9, 9, retry_s=2))
    job = table.submit()
    pauses = []
    for attempt in range(1, 8):
        claim = table.claim()
        assert claim.attempt == attempt
        assert table.leases.lost(claim, trace="killed")
        pauses.append(seconds_until_claimable(table))
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    assert table.jobs.get(DEFAULT_TENANT, job).state == "queued"


def test_a_job_whose_worker_ends_waits_beyond_the_lease(table: Table) -> None:
    table.try_jobs(RetryLimits(9, 9, retry_s=2))
    table.submit()
    pauses = []
    for _ in range(3):
        table.claim()
        pauses.append(seconds_until_claimable(table))
    assert pauses == [10 + 2, 10 + 4, 10 + 8]
    table.claim()
    table.turn_clock(1000)  # nobody looked meanwhile: the pause is over too
    assert table.leases.claim("w") is not None


def test_other_jobs_are_claimed_during_a_pause(table: Table) -> None:
    table.try_jobs(RetryLimits(9, 9, retry_s=60))
    table.submit()
    assert table.leases.lost(table.claim(), trace="killed")
    assert not table.leases.has_work()
    other = table.submit()
    assert table.claim().job == other


def test_a_clock_that_is_set_back_prolongs_no_pause(table: Table) -> None:
    table.try_jobs(RetryLimits(9, 9, retry_s=60))
    table.turn_clock(86400)
    table.submit()
    assert table.leases.lost(table.claim(), trace="killed")
    table.turn_clock(-86400)
    assert table.leases.claim("w") is not None


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("the process ended with code 1\nSegmentation fault", "code 1. Read the worker's log"),
        (
            f"the process ended with code -9; meanwhile the kernel counted 1 {FOR_MEMORY}\n",
            f"1 {FOR_MEMORY}. Give the worker more memory",
        ),
        ("", "the worker has no trace"),
    ],
)
def test_a_lost_search_says_how_it_ended(table: Table, trace: str, said: str) -> None:
    job = table.submit()
    for _ in range(2):
        assert table.leases.lost(table.claim(), trace=trace)
    detail = table.jobs.get(DEFAULT_TENANT, job).problem["detail"]
    assert "ended 2 times without an answer" in detail
    assert said in detail
    assert ("memory" in detail) == (FOR_MEMORY in trace)


def test_a_worker_that_stops_costs_its_job_nothing(table: Table) -> None:
    table.submit()
    for _ in range(5):
        assert table.leases.release(table.claim())
    assert table.claim().attempt == 6


def seconds_until_claimable(table: Table) -> int:
    """By the table's clock. A worker looks every second, as it does while it has nothing to do."""
    seconds = 0
    while True:
        with table.database.writing() as connection:
            table.losses.settle(connection)
        if table.leases.has_work():
            return seconds
        table.turn_clock(1)
        seconds += 1
