"""The job table: leases, fences, losses. The clock is a number that the tests turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Float, literal_column, text

from meshwright.planner import find_planner
from meshwright.schema import (
    Certificate,
    Graph,
    Infeasible,
    NotFound,
    Plan,
    Progress,
    Request,
    Topology,
)
from service import cancelled, certificates, documents
from service.database import Database
from service.errors import Internal
from service.jobs import Claim, Jobs, has_ended
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY

NOW = literal_column("(SELECT at FROM clock)", Float())


class Table:
    """A job table whose leases last 10 s, and whose searches may be lost twice."""

    def __init__(self, path: Path) -> None:
        self.database = Database(f"sqlite:///{path / 'jobs.db'}", now=NOW)
        self.database.upgrade()
        with self.database.writing() as connection:
            connection.execute(text("CREATE TABLE clock (at FLOAT)"))
            connection.execute(text("INSERT INTO clock VALUES (1000)"))
        self.jobs = Jobs(self.database, lease_s=10, max_losses=2)

    def turn_clock(self, seconds: float) -> None:
        with self.database.writing() as connection:
            connection.execute(text("UPDATE clock SET at = at + :by"), {"by": seconds})

    def submit(self, *, verify: bool = False) -> str:
        graph, topology = Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)
        with self.database.writing() as connection:
            for document in (graph, topology):
                documents.put(connection, document, now=self.database.now)
            return self.jobs.submit(
                connection,
                request="request_1",
                graph=graph.id,
                topology=topology.id,
                asked={},
                verify=verify,
            )

    def claim(self, worker: str = "w") -> Claim:
        claim = self.jobs.claim(worker)
        assert claim is not None
        return claim

    def events(self, job: str) -> list[Any]:
        with self.database.reading() as connection:
            rows = connection.execute(
                text("SELECT body ->> '$.state' FROM job_events WHERE job = :job ORDER BY seq"),
                {"job": job},
            )
            return [row[0] for row in rows]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = Table(tmp_path)
    yield made
    made.database.close()


@pytest.fixture(scope="module")
def plan() -> Plan:
    answer = find_planner("tests.service.planners:tiny")(Request.from_dict(REQUEST))
    assert answer.plan is not None
    return answer.plan


def test_the_oldest_job_is_claimed_first_and_once(table: Table) -> None:
    first = table.submit()
    table.turn_clock(1)
    second = table.submit()
    assert [table.claim().job, table.claim().job] == [first, second]
    assert table.jobs.claim("w") is None


def test_takeover_starts_when_the_lease_runs_out(table: Table) -> None:
    job = table.submit()
    mine = table.claim("first")
    table.turn_clock(9)
    assert table.jobs.claim("second") is None
    table.turn_clock(2)
    theirs = table.claim("second")
    assert (theirs.job, theirs.attempt) == (job, mine.attempt + 1)


def test_a_renewed_lease_is_not_taken_over(table: Table) -> None:
    table.submit()
    claim = table.claim()
    table.turn_clock(9)
    assert table.jobs.renew(claim)
    table.turn_clock(9)
    assert table.jobs.claim("second") is None


def test_an_older_attempt_may_write_nothing(table: Table, plan: Plan) -> None:
    table.submit()
    mine = table.claim("first")
    table.turn_clock(11)
    table.claim("second")
    assert not table.jobs.holds(mine)
    assert not table.jobs.renew(mine)
    assert not table.jobs.progress(mine, Progress(phase="late", done=1, total=1))
    assert table.jobs.succeed(mine, plan) == "not ours"
    late = Certificate(plan=plan.id, outcome="verified")
    assert not table.jobs.certify(mine, late)
    assert not table.jobs.fail(mine, Internal("late"))
    assert not table.jobs.release(mine)
    assert not table.jobs.lost(mine, trace="")
    assert not cancelled.keep(table.database, mine, plan, seconds=(), ended_early=True)
    with table.database.reading() as connection:
        assert not documents.exists(connection, "plan", plan.id)  # stored with its job or not
    assert table.jobs.get(mine.job).state == "running"


def test_success_stores_the_plan_with_the_job(table: Table, plan: Plan) -> None:
    job = table.submit()
    assert table.jobs.succeed(table.claim(), plan) == "ended"
    row = table.jobs.get(job)
    assert (row.state, row.outcome, row.plan) == ("succeeded", "optimal", plan.id)
    with table.database.reading() as connection:
        assert documents.exists(connection, "plan", plan.id)


def test_a_job_that_verifies_goes_on_with_its_plan(table: Table, plan: Plan) -> None:
    job = table.submit(verify=True)
    first = table.claim("first")
    assert table.jobs.succeed(first, plan) == "to verify"
    assert (table.jobs.get(job).state, table.jobs.get(job).plan) == ("running", plan.id)
    table.turn_clock(11)
    second = table.claim("second")
    assert second.plan == plan.id
    certificate = Certificate(plan=plan.id, outcome="failed", detail="wrong")
    assert not table.jobs.certify(first, certificate)
    assert table.jobs.certify(second, certificate)
    row = table.jobs.get(job)
    assert (row.state, row.outcome, row.certificate["outcome"]) == (
        "succeeded",
        "optimal",
        "failed",
    )
    with table.database.reading() as connection:
        assert certificates.read(connection, plan.id) == certificate


def test_two_requests_may_have_one_plan(table: Table, plan: Plan) -> None:
    for _ in range(2):
        table.submit()
        assert table.jobs.succeed(table.claim(), plan) == "ended"


def test_infeasible_ends_the_job_with_its_reason(table: Table) -> None:
    job = table.submit()
    table.jobs.succeed_without_plan(table.claim(), Infeasible(constraint="pins", detail="why"))
    row = table.jobs.get(job)
    assert (row.outcome, row.infeasible["detail"], row.plan) == ("infeasible", "why", None)


def test_a_job_that_loses_its_searches_fails_in_the_end(table: Table) -> None:
    job = table.submit()
    assert table.jobs.lost(table.claim(), trace="killed")
    assert table.jobs.get(job).state == "queued"
    assert table.jobs.lost(table.claim(), trace="killed")
    row = table.jobs.get(job)
    assert row.state == "failed"
    assert row.problem["type"].endswith("worker-lost")
    assert table.jobs.claim("w") is None


def test_leases_that_run_out_are_losses_too(table: Table) -> None:
    job = table.submit()
    for _ in range(2):
        table.claim()
        table.turn_clock(11)
    assert table.jobs.claim("w") is None
    assert table.jobs.get(job).state == "failed"


def test_a_worker_that_stops_costs_its_job_nothing(table: Table) -> None:
    table.submit()
    for _ in range(5):
        assert table.jobs.release(table.claim())
    assert table.claim().attempt == 6


def test_a_cancelled_job_is_nobodys(table: Table, plan: Plan) -> None:
    job = table.submit()
    claim = table.claim()
    assert table.jobs.cancel(job).state == "cancelled"
    assert table.jobs.succeed(claim, plan) == "not ours"
    assert table.jobs.get(job).state == "cancelled"


def test_the_plan_of_a_cancelled_search_is_kept_once(table: Table, plan: Plan) -> None:
    job = table.submit()
    claim = table.claim()
    found: dict[str, Any] = {"seconds": [0.5], "ended_early": True}
    assert not cancelled.keep(table.database, claim, plan, **found)  # it runs
    table.jobs.cancel(job)
    assert cancelled.is_cancelled(table.database, claim)
    older = Claim(claim.job, claim.attempt - 1, {})
    assert not cancelled.keep(table.database, older, plan, **found)
    assert cancelled.keep(table.database, claim, plan, **found)
    assert not cancelled.keep(table.database, claim, plan, **found)
    row = table.jobs.get(job)
    assert (row.state, row.plan, row.outcome) == ("cancelled", plan.id, "optimal")
    assert (row.seconds, row.ended_early) == ([0.5], True)
    with table.database.reading() as connection:
        assert documents.exists(connection, "plan", plan.id)


def test_a_plan_that_was_cut_short_by_a_cancel_answers_nobody_else(
    table: Table, plan: Plan
) -> None:
    for ended_early in (True, False):
        job = table.submit()
        claim = table.claim()
        table.jobs.cancel(job)
        cancelled.keep(table.database, claim, plan, seconds=(), ended_early=ended_early)
        with table.database.reading() as connection:
            answer = table.jobs.find(connection, "request_1")
        assert (answer is None) == ended_early


def test_a_cancelled_job_has_ended_when_its_worker_lets_go_or_its_lease_runs_out(
    table: Table,
) -> None:
    queued = table.submit()
    assert has_ended(table.jobs.cancel(queued))
    first = table.submit()
    claim = table.claim()
    assert not has_ended(table.jobs.get(first))
    cancelled.let_go(table.database, claim)  # of what is not cancelled: nothing
    assert table.jobs.holds(claim)
    assert not has_ended(table.jobs.cancel(first))
    cancelled.let_go(table.database, claim)
    assert has_ended(table.jobs.get(first))
    second = table.submit()
    table.claim()
    table.jobs.cancel(second)
    table.turn_clock(11)
    assert has_ended(table.jobs.get(second))


def test_cancel_leaves_what_has_ended_as_it_is(table: Table, plan: Plan) -> None:
    job = table.submit()
    table.jobs.succeed(table.claim(), plan)
    assert table.jobs.cancel(job).state == "succeeded"
    with pytest.raises(NotFound, match="job_0"):
        table.jobs.cancel("job_0")


def test_events_tell_the_life_of_a_job(table: Table, plan: Plan) -> None:
    job = table.submit()
    claim = table.claim()
    table.jobs.progress(claim, Progress(phase="searching", done=1, total=2))
    table.jobs.lost(claim, trace="")
    table.jobs.succeed(table.claim(), plan)
    states = ["queued", "running", None, "queued", "running", "succeeded"]
    assert table.events(job) == states
