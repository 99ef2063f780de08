"""The best plan so far of a search that ends without a last word: through the API, on both
databases, with real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from meshwright.schema import Infeasible, Plan
from meshwright_service.common.errors import Internal
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs import cancellation, incumbent_plans
from meshwright_service.jobs.jobs import has_ended
from meshwright_service.jobs.leases import Leases
from meshwright_service.jobs.losses import RetryLimits
from meshwright_service.store.encoded_documents import StoredPlan, stored_plan
from meshwright_service.store.tables import KeptRow, PlanRow
from tests.service.conftest import Serve, until
from tests.service.job_table import Table
from tests.service.samples import REQUEST

SOON = {"keep_plan_s": 0}
PROBLEM = "urn:meshwright:problem:"


def test_a_job_that_is_lost_too_often_succeeds_with_the_plan_that_was_kept(serve: Serve) -> None:
    http = serve("keeping", max_lapses=2, **SOON)
    job = _submit(http)
    for attempt in (1, 2):
        os.kill(_pid(http, job, attempt), signal.SIGKILL)
    ended = _ended(http, job)
    assert (ended["state"], ended["attempt"], ended["ended_early"]) == ("succeeded", 2, True)
    assert ended["outcome"] == "feasible"
    assert ended["problem"]["type"] == PROBLEM + "worker-lost"
    assert ended["seconds"] == [50.0]
    assert _step_ns(http, ended) == 50  # the next is due two seconds later
    again = http.post("/v1/plan?allow_partial=true", json=REQUEST)
    assert again.json()["search"]["found_by"] == "keeping"
    assert http.post("/v1/plan", json=REQUEST).status_code == 202  # by default a new search


def test_what_was_kept_is_no_plan_of_the_tenant_s_while_the_search_goes_on(serve: Serve) -> None:
    http = serve("keeping", cancel_grace_s=0.1, **SOON)
    job = _submit(http)
    _pid(http, job, 1)
    assert http.get("/v1/plans").json()["plans"] == []
    assert "plan" not in http.get(f"/v1/jobs/{job}").json()
    http.post(f"/v1/jobs/{job}/cancel")
    plan = _ended(http, job)["plan"]
    assert [own["id"] for own in http.get("/v1/plans").json()["plans"]] == [plan]


def test_a_search_that_runs_out_of_memory_answers_with_what_was_kept(serve: Serve) -> None:
    http = serve("keeping_then_greedy", solve_memory_bytes=2**31, **SOON)
    ended = _ended(http, _submit(http))
    assert (ended["state"], ended["attempt"], ended["ended_early"]) == ("succeeded", 1, True)
    assert ended["problem"]["type"] == PROBLEM + "out-of-memory"
    assert _step_ns(http, ended) == 40


def test_a_search_that_does_not_heed_its_cancel_leaves_what_was_kept(serve: Serve) -> None:
    http = serve("keeping", cancel_grace_s=0.2, **SOON)
    job = _submit(http)
    _pid(http, job, 1)
    http.post(f"/v1/jobs/{job}/cancel")
    ended = _ended(http, job)
    assert (ended["state"], ended["ended_early"]) == ("cancelled", True)
    assert _step_ns(http, ended) == 50


def test_a_search_that_is_late_and_does_not_heed_it_answers_with_what_was_kept(
    serve: Serve,
) -> None:
    verifier = "tests.service.verifiers:passing"
    http = serve("keeping", solve_s=3, solve_grace_s=0.2, verifier=verifier, **SOON)
    job = http.post("/v1/plan", json={**REQUEST, "verify": True}).json()["id"]
    ended = _ended(http, job)
    assert (ended["state"], ended["problem"]["type"]) == ("succeeded", PROBLEM + "timed-out")
    assert ended["certificate"]["outcome"] == "verified"  # as any other


def test_a_lost_job_has_the_plan_verified_that_was_kept(serve: Serve) -> None:
    verifier = "tests.service.verifiers:passing"
    http = serve("keeping", max_lapses=1, verifier=verifier, **SOON)
    job = http.post("/v1/plan", json={**REQUEST, "verify": True}).json()["id"]
    os.kill(_pid(http, job, 1), signal.SIGKILL)
    ended = _ended(http, job)
    assert (ended["state"], ended["ended_early"]) == ("succeeded", True)
    assert ended["certificate"]["outcome"] == "verified"


def test_a_takeover_that_finds_less_answers_with_what_was_kept(serve: Serve, count: Path) -> None:
    http = serve("forgetful", **SOON)
    job = _submit(http)
    os.kill(_pid(http, job, 1), signal.SIGKILL)
    ended = _ended(http, job)
    assert (ended["state"], ended["attempt"], ended["ended_early"]) == ("succeeded", 2, True)
    assert _step_ns(http, ended) == 40
    assert "a faster plan" in ended["problem"]["detail"]
    assert len(http.get("/v1/plans").json()["plans"]) == 1
    assert count.exists()


def test_a_job_whose_pool_loses_a_process_is_tried_again(serve: Serve, count: Path) -> None:
    http = serve("keeping_then_broken_pool", max_losses=2, **SOON)
    ended = _ended(http, _submit(http))
    assert count.read_text() == "searched\n" * 2
    assert (ended["state"], ended["problem"]["type"]) == ("succeeded", PROBLEM + "worker-lost")
    assert _step_ns(http, ended) == 40


def slower(plan: Plan, times: float) -> StoredPlan:
    cost = plan.cost.model_copy(update={"step_ns": plan.cost.step_ns * times})
    return stored_plan(plan.model_copy(update={"cost": cost}))


def test_a_cancelled_job_whose_worker_is_dead_has_what_was_kept(table: Table, plan: Plan) -> None:
    job = table.submit()
    assert table.leases.keep(table.claim(), stored_plan(plan))
    table.jobs.cancel(DEFAULT_TENANT, job)
    assert not has_ended(table.jobs.get(DEFAULT_TENANT, job))
    table.turn_clock(11)
    assert not has_ended(table.jobs.get(DEFAULT_TENANT, job))  # until a worker gives it the plan
    assert table.leases.claim("another") is None
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert has_ended(row)
    assert (row.state, row.plan, row.ended_early) == ("cancelled", plan.id, True)


def test_a_job_that_is_cancelled_between_two_attempts_has_its_plan_at_once(
    table: Table, plan: Plan
) -> None:
    job = table.submit()
    mine = table.claim()
    table.leases.keep(mine, stored_plan(plan))
    table.leases.lost(mine, trace="killed")
    row = table.jobs.cancel(DEFAULT_TENANT, job)
    assert (row.state, row.plan, row.ended_early) == ("cancelled", plan.id, True)
    assert has_ended(row)


def test_an_attempt_that_is_over_keeps_nothing(table: Table, plan: Plan) -> None:
    job = table.submit()
    mine = table.claim("first")
    table.turn_clock(11)
    table.claim("second")
    assert not table.leases.keep(mine, stored_plan(plan))
    with table.database.reading() as connection:
        assert incumbent_plans.of(connection, job) is None


def test_a_second_attempt_does_not_replace_what_is_better(table: Table, plan: Plan) -> None:
    table.leases = Leases(table.database, lease_s=10, tries=RetryLimits(9, 9, 0))
    job = table.submit()
    for times, best in ((2, 2), (3, 2), (1, 1)):
        table.leases.keep(table.claim(), slower(plan, times))
        with table.database.reading() as connection:
            found = incumbent_plans.of(connection, job)
        assert found is not None
        assert found.plan.step_ns == plan.cost.step_ns * best
        table.turn_clock(11)


@pytest.mark.parametrize(("times", "won"), [(1.005, False), (2, True)])
def test_an_answer_may_be_simpler_than_what_was_kept_but_not_worse(
    table: Table, plan: Plan, times: float, won: bool
) -> None:
    job = table.submit()
    first = table.claim()
    table.leases.keep(first, stored_plan(plan))
    table.leases.lost(first, trace="killed")
    answer = slower(plan, times)
    assert table.leases.succeed(table.claim(), answer) == "ended"
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.plan == plan.id, row.ended_early) == (won, won)


def test_a_second_attempt_that_finds_none_answers_with_what_was_kept(
    table: Table, plan: Plan
) -> None:
    job = table.submit(verify=True)
    first = table.claim()
    table.leases.keep(first, stored_plan(plan))
    table.leases.lost(first, trace="killed")
    second = table.claim()
    none = Infeasible(constraint="time", detail="the time budget ended")
    assert table.leases.succeed_without_plan(second, none) == "to verify"
    assert table.leases.plan_to_verify(second) == plan.id
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.plan, row.infeasible, row.ended_early) == (plan.id, None, True)
    assert row.problem["detail"].endswith("the time budget ended")


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_with_the_end_of_its_job_a_kept_plan_is_gone(table: Table, plan: Plan, state: str) -> None:
    job = table.submit()
    mine = table.claim()
    table.leases.keep(mine, slower(plan, 2))
    if state == "succeeded":
        table.leases.succeed(mine, stored_plan(plan))
    elif state == "failed":
        table.leases.fail(mine, Internal("a fault"))
    else:
        table.jobs.cancel(DEFAULT_TENANT, job)
        cancellation.keep(table.database, mine, stored_plan(plan), seconds=(), ended_early=True)
        cancellation.let_go(table.database, mine)
    assert table.jobs.get(DEFAULT_TENANT, job).plan == (None if state == "failed" else plan.id)
    with table.database.reading() as connection:
        assert connection.execute(select(KeptRow.job)).all() == []
        assert connection.execute(select(func.count()).select_from(PlanRow)).scalar() == (
            state != "failed"
        )


def _submit(http: TestClient) -> str:
    job: str = http.post("/v1/plan", json=REQUEST).json()["id"]
    return job


def _ended(http: TestClient, job: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
    assert found["state"] not in ("queued", "running")
    return found


def _step_ns(http: TestClient, job: dict[str, Any]) -> float:
    step_ns: float = http.get(f"/v1/plans/{job['plan']}").json()["cost"]["step_ns"]
    return step_ns


def _pid(http: TestClient, job: str, attempt: int) -> int:
    """The process of an attempt, once it has kept a plan and reported."""

    def reported() -> int:
        found = http.get(f"/v1/jobs/{job}").json()
        pid = int(found.get("progress", {}).get("phase", "").removeprefix("pid ") or 0)
        is_there = pid > 0 and Path(f"/proc/{pid}").exists()
        return pid if found["attempt"] == attempt and is_there else 0

    return int(until(reported))
