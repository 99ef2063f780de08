"""Several at the same time: threads of one service, and services on one store."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import func, select

from meshwright.schema import Certificate, Plan
from meshwright.schema.agent import Agent
from meshwright_service.auth.principals import ANYBODY
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs.agents import Agents
from meshwright_service.store import certificates, documents
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_service.store.tables import DocumentRow, JobEventRow
from tests.service.conftest import Serve
from tests.service.job_table import Table
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY

AT_ONCE = 8


def at_once(what: Any, times: int = AT_ONCE) -> list[Any]:
    """What so many threads get that do the same."""
    with ThreadPoolExecutor(times) as pool:
        return [found.result() for found in [pool.submit(what) for _ in range(times)]]


def test_the_same_request_is_one_job(serve: Serve) -> None:
    services = [serve(workers=0) for _ in range(2)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sent = [
            pool.submit(services[number % 2].post, "/v1/plan", json=REQUEST)
            for number in range(AT_ONCE)
        ]
        jobs = {found.result().json()["id"] for found in sent}
    assert len(jobs) == 1
    assert len(services[0].get("/v1/jobs").json()["jobs"]) == 1


def test_the_same_document_is_stored_once(serve: Serve) -> None:
    http = serve(workers=0)
    for shelf, body in (("graphs", GRAPH), ("topologies", TOPOLOGY)):
        answers = at_once(lambda: http.post(f"/v1/{shelf}", json=body))  # noqa: B023
        assert Counter(own.status_code for own in answers) == {201: 1, 200: AT_ONCE - 1}
        assert len({own.json()["id"] for own in answers}) == 1


def test_every_job_is_claimed_once(table: Table) -> None:
    jobs = sorted(table.submit() for _ in range(20))

    def claim_all() -> list[str]:
        found = []
        while (claim := table.leases.claim("w")) is not None:
            found.append(claim.job)
        return found

    assert sorted(job for own in at_once(claim_all) for job in own) == jobs


def test_events_of_a_job_are_numbered_one_after_another(table: Table) -> None:
    job = table.submit()
    at_once(lambda: table.leases.claim("w") and table.leases.release)
    at_once(lambda: table.jobs.cancel(DEFAULT_TENANT, job))
    with table.database.reading() as connection:
        events = select(JobEventRow.seq, JobEventRow.body).where(JobEventRow.job == job)
        found = connection.execute(events.order_by(JobEventRow.seq)).all()
    assert [(own.seq, own.body["state"]) for own in found] == [
        (1, "queued"),
        (2, "running"),
        (3, "cancelled"),
    ]


def test_a_plan_found_twice_is_kept_once_with_one_verdict(table: Table, plan: Plan) -> None:
    for _ in range(AT_ONCE):
        table.submit()
    outcomes = ("verified", "not verifiable")

    def find_and_certify() -> str:
        claim = table.claim()
        outcome = outcomes[claim.attempt % 2]
        said = table.leases.succeed(claim, stored_plan(plan))
        with table.database.writing() as connection:
            certificate = Certificate(plan=plan.id, outcome=outcome, detail="")
            certificates.put(connection, DEFAULT_TENANT, certificate, now=table.database.now)
        return said

    assert at_once(find_and_certify) == ["ended"] * AT_ONCE
    with table.database.reading() as connection:
        kept = select(func.count()).where(DocumentRow.id == plan.id)
        assert connection.execute(kept).scalar() == 1
        assert certificates.read(connection, DEFAULT_TENANT, plan.id).outcome in outcomes
        assert documents.exists(connection, DEFAULT_TENANT, "plan", plan.id)


def test_an_agent_that_registers_twice_is_one(table: Table) -> None:
    agents = Agents(table.database)
    who = Agent(name="a", backend="gloo", hosts=("h",), device="cpu", devices=2)
    assert sorted(at_once(lambda: agents.register(ANYBODY, who))) == [False] * (AT_ONCE - 1) + [
        True
    ]
