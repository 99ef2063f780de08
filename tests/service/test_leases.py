"""Leases: takeovers, fences, losses."""

from __future__ import annotations

from meshwright.schema import Certificate, Infeasible, Plan, Progress
from service import cancelled, certificates, documents
from service.errors import Internal
from service.principals import DEFAULT
from service.stored import stored_plan
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
    assert not cancelled.keep(table.database, mine, stored_plan(plan), seconds=(), ended_early=True)
    with table.database.reading() as connection:
        # stored with its job or not
        assert not documents.exists(connection, DEFAULT, "plan", plan.id)
    assert table.jobs.get(DEFAULT, mine.job).state == "running"


def test_success_stores_the_plan_with_the_job(table: Table, plan: Plan) -> None:
    job = table.submit()
    assert table.leases.succeed(table.claim(), stored_plan(plan)) == "ended"
    row = table.jobs.get(DEFAULT, job)
    assert (row.state, row.outcome, row.plan) == ("succeeded", "optimal", plan.id)
    with table.database.reading() as connection:
        assert documents.exists(connection, DEFAULT, "plan", plan.id)


def test_a_job_that_verifies_goes_on_with_its_plan(table: Table, plan: Plan) -> None:
    job = table.submit(verify=True)
    first = table.claim("first")
    assert table.leases.succeed(first, stored_plan(plan)) == "to verify"
    row = table.jobs.get(DEFAULT, job)
    assert (row.state, row.plan) == ("running", plan.id)
    table.turn_clock(11)
    second = table.claim("second")
    assert second.plan == plan.id
    certificate = Certificate(plan=plan.id, outcome="failed", detail="wrong")
    assert not table.leases.certify(first, certificate)
    assert table.leases.certify(second, certificate)
    row = table.jobs.get(DEFAULT, job)
    assert (row.state, row.outcome, row.certificate["outcome"]) == (
        "succeeded",
        "optimal",
        "failed",
    )
    with table.database.reading() as connection:
        assert certificates.read(connection, DEFAULT, plan.id) == certificate


def test_two_requests_may_have_one_plan(table: Table, plan: Plan) -> None:
    for _ in range(2):
        table.submit()
        assert table.leases.succeed(table.claim(), stored_plan(plan)) == "ended"


def test_infeasible_ends_the_job_with_its_reason(table: Table) -> None:
    job = table.submit()
    table.leases.succeed_without_plan(table.claim(), Infeasible(constraint="pins", detail="why"))
    row = table.jobs.get(DEFAULT, job)
    assert (row.outcome, row.infeasible["detail"], row.plan) == ("infeasible", "why", None)


def test_a_job_that_loses_its_searches_fails_in_the_end(table: Table) -> None:
    job = table.submit()
    assert table.leases.lost(table.claim(), trace="killed")
    assert table.jobs.get(DEFAULT, job).state == "queued"
    assert table.leases.lost(table.claim(), trace="killed")
    row = table.jobs.get(DEFAULT, job)
    assert row.state == "failed"
    assert row.problem["type"].endswith("worker-lost")
    assert table.leases.claim("w") is None


def test_leases_that_run_out_are_losses_too(table: Table) -> None:
    job = table.submit()
    for _ in range(2):
        table.claim()
        table.turn_clock(11)
    assert table.leases.claim("w") is None
    assert table.jobs.get(DEFAULT, job).state == "failed"


def test_a_worker_that_stops_costs_its_job_nothing(table: Table) -> None:
    table.submit()
    for _ in range(5):
        assert table.leases.release(table.claim())
    assert table.claim().attempt == 6
