"""Which stored answers a request takes instead of a new search."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import Infeasible, InvalidInput, Plan
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs import cancellation
from meshwright_service.jobs.acceptance import Acceptance
from meshwright_service.store.encoded_documents import stored_plan
from tests.service.conftest import Serve
from tests.service.job_table import Table
from tests.service.samples import REQUEST

WAIT = {"Prefer": "wait=60"}
DEFAULTS, PARTIAL = Acceptance(), Acceptance(allow_partial=True)


def found(table: Table, accepted: Acceptance = DEFAULTS) -> str | None:
    with table.database.reading() as connection:
        row = table.jobs.find(connection, DEFAULT_TENANT, "request_1", accepted)
    return None if row is None else str(row.id)


def ended(table: Table, how: str, plan: Plan) -> str:
    """A job that has ended so."""
    job = table.submit()
    claim = table.claim()
    cut: dict[str, Any] = {"seconds": (), "ended_early": True}
    match how:
        case "complete":
            table.leases.succeed(claim, stored_plan(plan))
        case "cut short":
            table.leases.succeed(claim, stored_plan(plan), **cut)
        case "nothing fits":
            table.leases.succeed_without_plan(claim, Infeasible(constraint="memory", detail=""))
        case "out of time":
            table.leases.succeed_without_plan(claim, Infeasible(constraint="time", detail=""))
        case "kept":
            table.leases.keep(claim, stored_plan(plan))
            table.leases.cut_short(claim, InvalidInput("out of memory"))
        case "cancelled":
            table.jobs.cancel(DEFAULT_TENANT, job)
            cancellation.keep(table.database, claim, stored_plan(plan), **cut)
        case "failed":
            table.leases.fail(claim, InvalidInput("the planner failed"))
    return job


@pytest.mark.parametrize(
    ("how", "answers", "answers_partial"),
    [
        ("complete", True, True),
        ("nothing fits", True, True),
        ("cut short", False, True),
        ("out of time", False, True),
        ("kept", False, True),
        ("cancelled", False, True),
        ("failed", False, False),
    ],
)
def test_an_answer_that_was_cut_short_is_taken_where_that_is_allowed(
    table: Table, plan: Plan, how: str, answers: bool, answers_partial: bool
) -> None:
    job = ended(table, how, plan)
    assert found(table) == (job if answers else None)
    assert found(table, PARTIAL) == (job if answers_partial else None)


def test_a_complete_answer_is_taken_before_a_newer_one_that_was_cut_short(
    table: Table, plan: Plan
) -> None:
    complete = ended(table, "complete", plan)
    table.turn_clock(1)
    partial = ended(table, "cut short", plan)
    assert found(table) == complete
    assert found(table, PARTIAL) == partial


def test_an_open_job_answers_unless_its_plan_was_cut_short(table: Table, plan: Plan) -> None:
    job = table.submit(verify=True)
    assert found(table) == found(table, Acceptance(max_age_s=0)) == job
    cut = {"seconds": (), "ended_early": True}
    assert table.leases.succeed(table.claim(), stored_plan(plan), **cut) == "to verify"
    assert found(table) is None
    assert found(table, PARTIAL) == job


def test_an_answer_is_taken_up_to_its_age(table: Table, plan: Plan) -> None:
    job = ended(table, "complete", plan)
    table.turn_clock(100)
    assert found(table, Acceptance(max_age_s=100)) == job
    assert found(table, Acceptance(max_age_s=99)) is None
    assert found(table, Acceptance(allow_partial=True, max_age_s=99)) is None
    assert found(table) == job


def test_a_request_says_what_it_takes(serve: Serve) -> None:
    http = serve("tiny")
    first = http.post("/v1/plan", json=REQUEST, headers=WAIT)
    assert http.post("/v1/plan?max_age=1000", json=REQUEST).status_code == 200
    again = http.post("/v1/plan?max_age=0", json=REQUEST)
    assert again.status_code == 202
    assert again.headers["location"] != first.headers["location"]
    for query, said in (("max_age=-1", "max_age"), ("allow_partial=some", "allow_partial")):
        refused = http.post(f"/v1/plan?{query}", json=REQUEST)
        assert refused.status_code == 422
        assert said in refused.json()["detail"]


def test_a_key_of_another_acceptance_is_another_request(serve: Serve) -> None:
    http = serve("tiny")
    keyed = {"Idempotency-Key": "one"}
    assert http.post("/v1/plan", json=REQUEST, headers=keyed).status_code == 202
    refused = http.post("/v1/plan?allow_partial=true", json=REQUEST, headers=keyed)
    assert refused.status_code == 422


def test_an_answer_of_another_build_is_taken_by_age_alone(table: Table, plan: Plan) -> None:
    def of_another_build(accepted: Acceptance) -> str | None:
        with table.database.reading() as connection:
            row = table.jobs.find(
                connection, DEFAULT_TENANT, "request_of_another_build", accepted, inputs="inputs_1"
            )
        return None if row is None else str(row.id)

    open_job = table.submit()
    assert of_another_build(Acceptance(max_age_s=100)) is None  # an open job may never have one
    table.leases.succeed(table.claim(), stored_plan(plan))
    table.turn_clock(100)
    assert of_another_build(DEFAULTS) is None
    assert of_another_build(Acceptance(max_age_s=99)) is None
    assert of_another_build(Acceptance(max_age_s=100)) == open_job
