"""What is deleted, when, and what never is; on both databases, by a clock that the tests turn."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest
from sqlalchemy import func, select

from meshwright.schema import Certificate, Graph, InUse, NotFound, Plan, Setup, Topology
from meshwright.schema.observation import Observation
from meshwright.schema.sweep import SweepPoint
from meshwright_costmodel.calibrations import default_calibration
from meshwright_service.auth.principals import ANYBODY, Principal
from meshwright_service.common.errors import WorkerLost
from meshwright_service.common.settings import Settings
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant
from meshwright_service.jobs import sweeps
from meshwright_service.jobs.leases import Claim
from meshwright_service.jobs.retention import DAY_S, Retention
from meshwright_service.jobs.sweeps import PointRecord
from meshwright_service.store import certificates, deletion, documents, observations
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_service.store.tables import DocumentRow, HoldingRow, JobEventRow, JobRow, PlanRow
from tests.service.conftest import Serve, until
from tests.service.job_table import Table
from tests.service.keyed import key_of, state_of
from tests.service.samples import GRAPH, REQUEST, TOPOLOGY

OTHER = Principal(Tenant("other"), None, ANYBODY.scopes)
CALIBRATION = default_calibration()
SETUPS = (Setup(), Setup.from_dict({"phase": "inference"}))
CERTIFIED = {"outcome": "verified", "detail": ""}
KINDS = ("events", "jobs", "plans", "sweeps", "solutions", "documents", "bytes")
NOTHING = dict.fromkeys(KINDS, 0)


class Shop:
    """A store and what goes on in it. Ages: 1 day for events, 2 for jobs, 3 for plans, 4 beyond."""

    def __init__(self, table: Table, plan: Plan) -> None:
        self.table = table
        self.database = table.database
        self.retention = Retention(
            table.database,
            Settings(
                keep_events_days=1, keep_jobs_days=2, keep_plans_days=3, keep_documents_days=4
            ),
        )
        self._plan = plan

    def graph(self, number: int) -> Graph:
        return Graph.from_dict({**GRAPH, "name": f"graph {number}"})

    def plan_for(self, asked: dict[str, Any], number: int) -> Plan:
        named = {field: asked[field] for field in ("graph", "topology", "setup")}
        calibration = asked.get("calibration", CALIBRATION.id)
        return self._plan.model_copy(
            update={**named, "calibration": calibration, "name": f"plan {number}"}
        )

    def ask(self, number: int, by: Principal = ANYBODY, *, verify: bool = False,
            before: str | None = None) -> str:  # fmt: skip
        """A job for one of the graphs."""
        graph, topology = self.graph(number), Topology.from_dict(TOPOLOGY)
        setup = SETUPS[number % len(SETUPS)]
        asked = {"graph": graph.id, "topology": topology.id, "setup": setup.id}
        asked |= {"from_plan": before, "steps": 9} if before else {}
        with self.database.writing() as connection:
            for document in (graph, topology, setup, CALIBRATION):
                documents.put(connection, by.tenant, document, now=self.database.now)
            return self.table.jobs.submit(
                connection, by, request=f"request_{number}", inputs=f"inputs_{number}",
                graph=graph.id, topology=topology.id, options=asked, verify=verify,
            )  # fmt: skip

    def found(self, number: int, by: Principal = ANYBODY) -> str:
        """A plan that a job has found."""
        self.ask(number, by)
        claim = self.table.claim()
        plan = self.plan_for(claim.asked, number)
        assert self.table.leases.succeed(claim, stored_plan(plan)) == "ended"
        return plan.id

    def job_of(self, plan: str) -> str:
        with self.database.reading() as connection:
            rows = connection.execute(select(JobRow.id).where(JobRow.plan == plan))
            return str(rows.scalar_one())

    def observe(self, plan: str, by: Principal = ANYBODY) -> None:
        with self.database.writing() as connection:
            own = documents.parsed(connection, by.tenant, Plan, plan)
            one = Observation.from_dict({"plan": plan, "step_ns": own.cost.step_ns * 2})
            observations.put(connection, by.tenant, one, own, now=self.database.now)

    def certify(self, plan: str, by: Principal = ANYBODY) -> None:
        with self.database.writing() as connection:
            one = Certificate(plan=plan, **CERTIFIED)
            certificates.put(connection, by.tenant, one, now=self.database.now)

    def delete_plan(self, plan: str, by: Principal = ANYBODY) -> None:
        with self.database.writing() as connection:
            deletion.delete_plan(connection, by.tenant, plan, self.database.now)

    def has(self, kind: str, id_: str, by: Principal = ANYBODY) -> bool:
        with self.database.reading() as connection:
            return documents.exists(connection, by.tenant, kind, id_)

    def count(self, table: Any) -> int:
        with self.database.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(table)).scalar_one())

    def days(self, days: float) -> dict[str, int]:
        """Let so many days pass and prune."""
        self.table.turn_clock(days * DAY_S)
        return self.retention.prune()


@pytest.fixture
def shop(table: Table, plan: Plan) -> Shop:
    return Shop(table, plan)


def test_things_go_in_the_order_of_their_ages(shop: Shop) -> None:
    plan = shop.found(1)
    failed = shop.ask(2)
    shop.table.leases.fail(shop.table.claim(), WorkerLost("so it is"))
    assert shop.days(0.9) == NOTHING
    assert shop.days(0.2)["events"] == 2
    assert shop.count(JobEventRow) == 0
    assert shop.days(1)["jobs"] == 1  # the other one finds the plan
    with pytest.raises(NotFound):
        shop.table.jobs.get(DEFAULT_TENANT, failed)
    with shop.database.reading() as connection:
        found = shop.table.jobs.find(connection, DEFAULT_TENANT, "request_1")
        assert found is not None
        assert found.plan == plan
    gone = shop.days(1)
    assert (gone["plans"], gone["bytes"]) == (1, 1)
    assert shop.count(JobRow) == 0
    assert not shop.has("plan", plan)
    gone = shop.days(1)
    assert gone["documents"] == 5  # two graphs, a topology, two setups; the calibration stays
    assert gone["bytes"] == 5
    assert shop.count(DocumentRow) == shop.count(HoldingRow) == 1
    assert shop.days(1000) == NOTHING


def test_sweeps_go_at_the_age_of_plans_without_their_jobs(shop: Shop) -> None:
    plan = shop.found(1)
    shop.observe(plan)
    point = PointRecord(SweepPoint(topology="two by four"), shop.job_of(plan), queued=True)
    body = {"topologies": ["two by four"]}
    with shop.database.writing() as connection:
        graph, now = shop.graph(1).id, shop.database.now
        sweeps.put(connection, ANYBODY, "sweep_1", graph=graph, body=body, points=[point], now=now)
    assert shop.days(2.9)["sweeps"] == 0
    with shop.database.reading() as connection:
        record = sweeps.status(connection, DEFAULT_TENANT, "sweep_1").record
        (row,) = sweeps.rows(connection, DEFAULT_TENANT, record)
    assert row.state == "planned"
    assert shop.days(0.2)["sweeps"] == 1
    assert shop.has("plan", plan)


def test_what_somebody_named_measured_or_executed_stays(shop: Shop) -> None:
    measured, executed, neither = (shop.found(number) for number in (1, 2, 3))
    shop.observe(measured)
    shop.certify(executed)
    shop.days(100)
    assert [shop.has("plan", own) for own in (measured, executed, neither)] == [True, True, False]
    for number, is_there in ((1, True), (2, True), (3, False)):
        assert shop.has("graph", shop.graph(number).id) is is_there
        with shop.database.reading() as connection:
            found = shop.table.jobs.find(connection, DEFAULT_TENANT, f"request_{number}")
            assert (found is not None) is is_there


def test_cancelled_jobs_are_pruned_once_no_worker_holds_them(shop: Shop) -> None:
    queued = shop.ask(1)
    shop.table.jobs.cancel(DEFAULT_TENANT, queued)  # never claimed: it has no lease
    for number in (2, 3):
        shop.ask(number)
    claims = [shop.table.claim(), shop.table.claim()]
    for claim in claims:
        shop.table.jobs.cancel(claim.tenant, claim.job)
    shop.table.leases.release(claims[1])
    assert shop.days(0)["jobs"] == 0
    assert shop.days(1.1)["events"] == 3
    assert shop.count(JobEventRow) == 0
    assert shop.days(1)["jobs"] == 3
    shop.days(10)
    assert [shop.has("graph", shop.graph(number).id) for number in (1, 2, 3)] == [False] * 3


def test_an_open_job_keeps_what_it_needs_however_old(shop: Shop) -> None:
    before, verified = shop.found(1), shop.found(2)
    shop.ask(1, before=before)
    with shop.database.writing() as connection:
        row = shop.table.jobs.find(connection, DEFAULT_TENANT, "request_2")
        assert row is not None
        again = shop.table.jobs.verify(connection, ANYBODY, row)
    assert again != row.id
    shop.days(1000)
    assert shop.has("plan", before)
    assert shop.has("plan", verified)
    for plan in (before, verified):
        with pytest.raises(InUse, match=r"the job job_.* needs this plan"):
            shop.delete_plan(plan)


def test_a_tenant_deletes_for_itself_alone(shop: Shop) -> None:
    plan = shop.found(1)
    assert shop.found(1, OTHER) == plan
    shop.certify(plan)
    shop.observe(plan)
    shop.delete_plan(plan)
    assert not shop.has("plan", plan)
    assert shop.has("plan", plan, OTHER)
    with pytest.raises(NotFound):
        shop.delete_plan(plan)
    assert shop.days(0)["bytes"] == 0
    shop.delete_plan(plan, OTHER)
    assert shop.days(0)["bytes"] == 1
    assert shop.found(1) == plan  # the same again


def test_what_was_deleted_meanwhile_is_not_asked_for(shop: Shop) -> None:
    before = shop.found(1)
    shop.delete_plan(before)
    with pytest.raises(NotFound, match=f"{before}' was just deleted"):
        shop.ask(2, before=before)
    assert shop.count(JobRow) == 0


def test_who_stores_what_nobody_had_keeps_it_from_who_deletes(shop: Shop) -> None:
    graph = shop.graph(1)
    shop.ask(1)
    shop.table.leases.fail(shop.table.claim(), WorkerLost("so it is"))
    with shop.database.writing() as connection:
        deletion.delete_input(connection, DEFAULT_TENANT, "graph", graph.id, shop.database.now)
    assert shop.count(DocumentRow) == shop.count(HoldingRow) + 1
    pruning = threading.Thread(target=shop.retention.prune)
    with shop.database.writing() as connection:
        assert documents.put(connection, OTHER.tenant, graph, now=shop.database.now)
        pruning.start()
        pruning.join(timeout=0.5)
        assert pruning.is_alive()
    pruning.join(timeout=120)
    with shop.database.reading() as connection:
        assert documents.parsed(connection, OTHER.tenant, Graph, graph.id) == graph


def test_of_many_processes_one_prunes_once_in_a_period(shop: Shop) -> None:
    own = [Retention(shop.database, Settings(prune_every_s=100)) for _ in range(4)]
    assert [one.is_due() for one in own] == [True, False, False, False]
    shop.table.turn_clock(99)
    assert not own[1].is_due()
    shop.table.turn_clock(2)
    turns: list[bool] = []
    threads = [threading.Thread(target=lambda one=one: turns.append(one.is_due())) for one in own]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == [False, False, False, True]
    shop.table.turn_clock(-500)  # somebody sets the clock back
    assert own[0].is_due()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_nothing_that_is_needed_goes(shop: Shop, seed: int) -> None:
    """Random things, one after another, and after each of them the store holds together."""
    at = random.Random(seed)
    claims: list[Claim] = []
    pruned = refused = 0
    for _ in range(160):
        by = at.choice((ANYBODY, ANYBODY, OTHER))
        plans = _plans(shop, by.tenant)
        match at.choice(("ask", "ask", "again", "end", "end", "end", "cancel", "observe", "certify",
                         "delete", "input", "pass", "pass")):  # fmt: skip
            case "ask":
                shop.ask(at.randrange(5), by, verify=at.random() < 0.3)
            case "again" if plans:
                shop.ask(at.randrange(5), by, before=at.choice(plans))
            case "end":
                claim = shop.table.leases.claim("w")
                if claim is not None:
                    claims.append(claim)
                if claims:
                    _end(shop, claims.pop(at.randrange(len(claims))), at)
            case "cancel" if claims:
                shop.table.jobs.cancel(claims[-1].tenant, claims[-1].job)
            case "observe" if plans:
                shop.observe(at.choice(plans), by)
            case "certify" if plans:
                shop.certify(at.choice(plans), by)
            case "delete" if plans:
                try:
                    shop.delete_plan(at.choice(plans), by)
                except InUse:
                    refused += 1
            case "input":
                try:
                    with shop.database.writing() as connection:
                        id_ = shop.graph(at.randrange(5)).id
                        now = shop.database.now
                        deletion.delete_input(connection, by.tenant, "graph", id_, now)
                except (InUse, NotFound):
                    refused += 1
            case "pass":
                kept = _kept(shop)
                pruned += sum(shop.days(at.choice((0, 0.5, 2, 5))).values())
                assert kept <= set(_shelf(shop))
        _check(shop)
    assert pruned > 10
    assert refused > 2


def _end(shop: Shop, claim: Claim, at: random.Random) -> None:
    leases = shop.table.leases
    match at.randrange(6):
        case 0:
            leases.fail(claim, WorkerLost("so it is"))
        case 1:
            leases.release(claim)
        case 2:
            pass  # its worker is frozen: the lease runs out
        case _:
            plan = shop.plan_for(claim.asked, at.randrange(3))
            if leases.succeed(claim, stored_plan(plan)) == "to verify":
                leases.certify(claim, Certificate(plan=plan.id, **CERTIFIED))


def _plans(shop: Shop, tenant: Tenant) -> list[str]:
    return [id_ for own, id_ in _shelf(shop) if own == tenant]


def _shelf(shop: Shop) -> list[tuple[str, str]]:
    with shop.database.reading() as connection:
        rows = connection.execute(select(PlanRow.tenant, PlanRow.id).order_by(PlanRow.id))
        return [(row.tenant, row.id) for row in rows]


def _kept(shop: Shop) -> set[tuple[str, str]]:
    """Plans that no pruning may take."""
    found: set[tuple[str, str]] = set()
    with shop.database.reading() as connection:
        for constraint in deletion.referring_to("plans"):
            found |= {(row[0], row[1]) for row in connection.execute(select(*constraint.columns))}
        jobs = select(JobRow).where(JobRow.state.in_(("queued", "running")))
        for row in connection.execute(jobs.with_only_columns(*JobRow.__table__.columns)):
            ids = (row.plan, row.asked.get("from_plan"))
            found |= {(row.tenant, id_) for id_ in ids if id_}
    return found


def _check(shop: Shop) -> None:
    """Open jobs have what they need, plans what they are of, and requests find plans that are."""
    with shop.database.reading() as connection:
        for row in connection.execute(select(JobRow.__table__)).all():
            tenant = Tenant(row.tenant)
            if row.state in ("queued", "running"):
                for field in ("graph", "topology", "setup", "from_plan"):
                    if row.asked.get(field):
                        kind = row.asked[field].partition("_")[0]
                        documents.read(connection, tenant, kind, row.asked[field])
            if row.plan is not None:
                documents.read(connection, tenant, "plan", row.plan)
        for tenant, id_ in _shelf(shop):
            plan = json.loads(documents.read(connection, Tenant(tenant), "plan", id_))
            for field, kind in (("graph", "graph"), ("topology", "topo"), ("setup", "setup")):
                documents.read(connection, Tenant(tenant), kind, plan[field])


@pytest.mark.usefixtures("count")
def test_over_http_only_an_admin_deletes_and_the_next_request_searches_again(serve: Serve) -> None:
    http = serve("slow")
    admin, other = key_of(http, "admin"), key_of(http, "read", "plan", "agent")
    asked = http.post("/v1/plan", json=REQUEST, headers={**admin, "Prefer": "wait=60"})
    plan, found = asked.headers["Content-Location"], asked.json()
    shelves = [plan, f"/v1/graphs/{found['graph']}", f"/v1/topologies/{found['topology']}"]
    for path in shelves:
        assert http.delete(path, headers=other).status_code == 403
    for path in shelves[1:]:
        answer = http.delete(path, headers=admin)
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:meshwright:problem:in-use"
        assert "delete the plans first" in answer.json()["detail"]
    assert http.delete(plan, headers=admin).status_code == 204
    assert http.get(plan, headers=admin).status_code == 404
    again = http.post("/v1/plan", json=REQUEST, headers=admin)
    assert again.status_code == 202
    for path in shelves[1:]:
        assert "needs this" in http.delete(path, headers=admin).json()["detail"]
    job = again.headers["Location"]
    http.post(f"{job}/cancel", headers=admin)
    assert http.get(f"{job}?wait=60", headers=admin).json()["state"] == "cancelled"
    if http.get(plan, headers=admin).status_code == 200:  # it had one just before
        assert http.delete(plan, headers=admin).status_code == 204
    for path in shelves[1:]:
        assert http.delete(path, headers=admin).status_code == 204
        assert http.get(path, headers=admin).status_code == 404
        assert http.delete(path, headers=admin).status_code == 404


def test_a_service_prunes_by_itself(serve: Serve) -> None:
    http = serve(keep_jobs_days=1e-6, keep_plans_days=1e-6, prune_every_s=0.2)
    asked = http.post("/v1/plan", json=REQUEST)
    assert asked.status_code in (200, 202)
    until(lambda: http.get("/v1/jobs").json()["jobs"] == [])
    until(lambda: http.get("/v1/plans").json()["plans"] == [])
    until(lambda: 'meshwright_pruned_total{what="plans"} 1.0' in http.get("/metrics").text)
    assert state_of(http).workers[0].is_alive()
