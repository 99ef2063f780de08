"""Agents: alive and silent, what they may claim, and what an attempt that is over may write."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from meshwright.schema import Progress
from meshwright.schema.agent import Agent, Measure
from meshwright.schema.samples import Samples
from meshwright_costmodel.fitting import fit_calibration
from meshwright_service.auth.principals import ANYBODY
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs.agents import Agents, takes
from meshwright_service.jobs.leases import Claim, Leases
from meshwright_service.store import documents
from meshwright_service.store.pagination import PageRequest
from tests.costmodel.test_fitting import samples
from tests.service.conftest import Serve, until
from tests.service.job_table import TRIES, Table

WHO = Agent(name="a", backend="nccl", hosts=("h",), device="NVIDIA H100 80GB HBM3", devices=16)
OTHER = WHO.model_copy(update={"name": "b"})
OVER_GLOO = WHO.model_copy(update={"name": "c", "backend": "gloo"})


class Measuring(Table):
    """A job table with agents, silent after 30 s."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.agents = Agents(self.database, silent_s=30)
        self.leases = Leases(self.database, lease_s=10, tries=TRIES, agents=self.agents)
        self.agents.register(ANYBODY, WHO)

    def measure(self, **asked: Any) -> str:
        with self.database.writing() as connection:
            return self.jobs.measure(connection, ANYBODY, Measure(**asked))

    def lease(self, by: Agent) -> Claim | None:
        return self.leases.claim(by.id, takes(DEFAULT_TENANT, by.id, by.backend))

    def shelf(self) -> int:
        with self.database.reading() as connection:
            return int(connection.execute(text("SELECT count(*) FROM documents")).scalar() or 0)


@pytest.fixture
def table(store: str) -> Iterator[Measuring]:
    made = Measuring(store)
    yield made
    made.database.close()


def test_an_agent_is_silent_once_nothing_is_heard_of_it(table: Measuring) -> None:
    assert not table.agents.register(ANYBODY, WHO)
    table.turn_clock(29)
    assert table.agents.get(DEFAULT_TENANT, WHO.id).is_alive
    table.turn_clock(2)
    assert not table.agents.get(DEFAULT_TENANT, WHO.id).is_alive
    table.agents.hear(ANYBODY, WHO.id)
    (heard,) = table.agents.list(DEFAULT_TENANT, PageRequest(10)).items
    assert heard.is_alive
    assert heard.agent == WHO


def test_a_clock_that_is_set_back_makes_no_agent_immortal(table: Measuring) -> None:
    table.turn_clock(86400)
    table.agents.hear(ANYBODY, WHO.id)
    table.turn_clock(-86400)
    assert not table.agents.get(DEFAULT_TENANT, WHO.id).is_alive
    table.agents.hear(ANYBODY, WHO.id)
    assert table.agents.get(DEFAULT_TENANT, WHO.id).is_alive


def test_agents_claim_measurements_and_workers_searches(table: Measuring) -> None:
    measurement, search = table.measure(), table.submit()
    assert table.claim().job == search
    assert table.leases.claim("w") is None
    claim = table.lease(WHO)
    assert claim is not None
    assert claim.job == measurement
    assert table.agents.get(DEFAULT_TENANT, WHO.id).measuring == measurement
    assert table.lease(WHO) is None


def test_a_measurement_goes_to_whom_it_is_for(table: Measuring) -> None:
    for own in (OTHER, OVER_GLOO):
        table.agents.register(ANYBODY, own)
    for_one, over_gloo = table.measure(agent=OTHER.id), table.measure(backend="gloo")
    assert table.lease(WHO) is None
    found = [table.lease(OTHER), table.lease(OVER_GLOO)]
    assert [own and own.job for own in found] == [for_one, over_gloo]


def test_an_agent_that_wakes_up_past_its_lease_stores_nothing(table: Measuring) -> None:
    table.agents.register(ANYBODY, OTHER)
    job = table.measure()
    mine = table.lease(WHO)
    assert mine is not None
    table.turn_clock(11)
    theirs = table.lease(OTHER)
    assert theirs is not None
    assert (theirs.job, theirs.attempt) == (job, 2)
    own = samples()
    before = table.shelf()
    assert not table.leases.renew(mine)
    assert not table.leases.progress(mine, Progress(phase="late", done=1, total=1))
    assert not table.leases.measured(mine, own, fit_calibration(own))
    assert not table.leases.lost(mine, trace="late")
    assert table.shelf() == before
    assert table.leases.measured(theirs, own, fit_calibration(own))
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert (row.state, row.samples, row.topology) == ("succeeded", own.id, own.topology.id)


def test_a_measurement_lost_too_often_fails_with_the_last_word(table: Measuring) -> None:
    job = table.measure()
    for _ in range(2):
        claim = table.lease(WHO)
        assert claim is not None
        assert table.leases.lost(claim, trace="process 1 of 2 was killed")
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert row.state == "failed"
    assert "the measurement was lost 2 times" in row.problem["detail"]
    assert "process 1 of 2 was killed" in row.problem["detail"]
    assert table.events(job)[-1] == "failed"


@pytest.mark.parametrize("begun", [False, True])
def test_a_measurement_that_nobody_can_take_fails(table: Measuring, begun: bool) -> None:
    table.agents.register(ANYBODY, OVER_GLOO)
    job = table.measure(backend="nccl")
    if begun:
        table.lease(WHO)
    table.turn_clock(20)
    table.agents.hear(ANYBODY, OVER_GLOO.id)
    table.leases.claim("w")
    assert table.jobs.get(DEFAULT_TENANT, job).state in ("queued", "running")
    table.turn_clock(20)
    table.leases.claim("w")
    row = table.jobs.get(DEFAULT_TENANT, job)
    assert row.state == "failed"
    assert row.problem["type"].endswith("no-agent")
    assert "heard of for 30 s" in row.problem["detail"]


def test_one_of_many_agents_that_ask_at_once_gets_a_measurement(table: Measuring) -> None:
    many = [WHO.model_copy(update={"name": f"agent {at}"}) for at in range(8)]
    for own in many:
        table.agents.register(ANYBODY, own)
    jobs = {table.measure() for _ in range(3)}
    with ThreadPoolExecutor(len(many)) as pool:
        claims = [claim for claim in pool.map(table.lease, many) if claim is not None]
    assert {claim.job for claim in claims} == jobs
    assert len(claims) == 3


def registered(http: TestClient, own: Agent = WHO) -> str:
    return str(http.post("/v1/agents", json=own.to_dict()).json()["id"])


def leased(http: TestClient, agent: str, **asked: Any) -> dict[str, Any]:
    answer = http.post("/v1/calibrations:measure", json=asked)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    found: dict[str, Any] = http.post(f"/v1/agents/{agent}/lease?wait=5").json()["measurement"]
    assert found["id"] == answer.json()["id"]
    return found


def results(http: TestClient, agent: str, lease: dict[str, Any], **how: Any) -> Any:
    path = f"/v1/agents/{agent}/measurements/{lease['id']}/results"
    return http.post(path, json={"attempt": lease["attempt"], **how})


def test_agents_are_listed_in_pages(serve: Serve) -> None:
    http = serve(workers=0)
    made = {registered(http, WHO.model_copy(update={"name": f"a{n}"})) for n in range(3)}
    first = http.get("/v1/agents", params={"page_size": 2}).json()
    token = first["next_page_token"]
    rest = http.get("/v1/agents", params={"page_size": 2, "page_token": token}).json()
    assert {entry["id"] for page in (first, rest) for entry in page["agents"]} == made
    assert "next_page_token" not in rest


def test_agents_register_once_and_are_listed(serve: Serve) -> None:
    http = serve(workers=0)
    first, again = (http.post("/v1/agents", json=WHO.to_dict()) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == {"id": WHO.id, "heartbeat_s": 3}
    (entry,) = http.get("/v1/agents").json()["agents"]
    assert (entry["state"], entry["agent"]["name"]) == ("alive", "a")
    assert http.get(f"/v1/agents/{WHO.id}").json() == entry
    assert http.post(f"/v1/agents/{WHO.id}/lease").json() == {}
    for path in ("heartbeat", "lease"):
        assert http.post(f"/v1/agents/agent_0/{path}", json={}).status_code == 404


def test_nobody_is_asked_where_nobody_is(serve: Serve) -> None:
    http = serve(workers=0)
    registered(http)
    answer = http.post("/v1/calibrations:measure", json={"backend": "hccl"})
    assert answer.status_code == 409
    assert "no agent over hccl was heard of" in answer.json()["detail"]
    assert http.post("/v1/calibrations:measure", json={"agent": "agent_0"}).status_code == 404
    assert http.get("/v1/jobs").json()["jobs"] == []


def test_results_are_stored_once_and_only_of_who_has_the_lease(serve: Serve) -> None:
    http = serve(workers=0)
    agent, other = registered(http), registered(http, OTHER)
    lease = leased(http, agent, seconds=7)
    assert (lease["attempt"], lease["asked"]["seconds"]) == (1, 7)
    own = samples().to_dict()
    stranger = results(http, other, lease, samples=own)
    later = results(http, agent, {**lease, "attempt": 2}, samples=own)
    assert (stranger.status_code, later.status_code) == (409, 409)
    assert http.get("/v1/samples").json()["samples"] == []
    first, again = (results(http, agent, lease, samples=own) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    assert results(http, agent, lease, lost="late").status_code == 409
    job = http.get(f"/v1/jobs/{lease['id']}").json()
    stored = first.json()["stored"]
    assert job["state"] == "succeeded"
    assert (job["kind"], job["worker"]) == ("measurement", agent)
    assert job["samples"] == stored["id"] == Samples.from_dict(own).id
    assert (job["calibration"], job["topology"]) == (stored["calibration"], stored["topology"])


def test_samples_of_another_cluster_than_the_agent_s_are_refused(serve: Serve) -> None:
    http = serve(workers=0)
    few = WHO.model_copy(update={"devices": 4})
    agent = registered(http, few)
    lease = leased(http, agent)
    answer = results(http, agent, lease, samples=samples().to_dict())
    assert answer.status_code == 422
    assert "16 devices over nccl, the agent registered 4" in answer.json()["detail"]
    assert results(http, agent, lease, problem=answer.json()["detail"]).status_code == 200
    job = http.get(f"/v1/jobs/{lease['id']}").json()
    assert (job["state"], job["problem"]["detail"]) == ("failed", answer.json()["detail"])
    assert http.get("/v1/samples").json()["samples"] == []


def test_progress_is_the_job_s_and_a_cancel_ends_the_lease(serve: Serve) -> None:
    http = serve(workers=0)
    agent = registered(http)
    lease = leased(http, agent)
    sign = {"measurement": lease["id"], "attempt": 1}
    told = {**sign, "progress": {"phase": "matmul", "done": 3, "total": 9}}
    beat = f"/v1/agents/{agent}/heartbeat"
    assert http.post(beat, json=told).json() == {"holds": True}
    assert http.get(f"/v1/jobs/{lease['id']}").json()["progress"]["done"] == 3
    assert http.get(f"/v1/agents/{agent}").json()["measuring"] == lease["id"]
    http.post(f"/v1/jobs/{lease['id']}/cancel")
    assert http.post(beat, json=sign).json() == {"holds": False}
    assert results(http, agent, lease, samples=samples().to_dict()).status_code == 409
    ended = http.get(f"/v1/jobs/{lease['id']}?wait=60").json()  # nobody holds it any more
    assert ended["state"] == "cancelled"
    assert http.get("/v1/samples").json()["samples"] == []
    assert http.post(beat, json={}).json() == {"holds": False}
    half = http.post(beat, json={"measurement": lease["id"]})
    assert half.status_code == 422


@pytest.mark.parametrize("total", [False, "9", -1, 2**60])
def test_a_sign_of_life_counts_in_numbers(serve: Serve, total: Any) -> None:
    http = serve(workers=0)
    told = {"progress": {"phase": "matmul", "done": 0, "total": total}}
    refused = http.post(f"/v1/agents/{registered(http)}/heartbeat", json=told)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/progress/total"


def test_an_agent_that_stops_gives_its_measurement_back(serve: Serve) -> None:
    http = serve(workers=0)
    agent = registered(http)
    lease = leased(http, agent)
    assert results(http, agent, lease, released=True).status_code == 200
    again = http.post(f"/v1/agents/{agent}/lease").json()["measurement"]
    assert (again["id"], again["attempt"]) == (lease["id"], 2)


def test_results_are_one_thing(serve: Serve) -> None:
    http = serve(workers=0)
    agent = registered(http)
    lease = leased(http, agent)
    for how in ({}, {"lost": "a", "problem": "b"}, {"released": False}):
        assert results(http, agent, lease, **how).status_code == 422
    search = http.post("/v1/agents/x/measurements/job_0/results", json={"attempt": 1})
    assert search.status_code == 404


def test_a_measurement_without_agents_ends_while_workers_run(serve: Serve) -> None:
    http = serve(agent_silent_s=0.3)
    registered(http)
    job = http.post("/v1/calibrations:measure", json={}).json()["id"]
    problem = until(lambda: http.get(f"/v1/jobs/{job}").json().get("problem"))
    assert problem["type"].endswith("no-agent")
    assert problem["instance"] == f"/v1/jobs/{job}"


def test_measured_stores_the_documents_with_the_job(table: Measuring) -> None:
    table.measure()
    claim = table.lease(WHO)
    assert claim is not None
    own = samples()
    calibration = fit_calibration(own)
    assert table.leases.measured(claim, own, calibration)
    with table.database.reading() as connection:
        for document in (own, own.topology, calibration):
            assert documents.exists(connection, DEFAULT_TENANT, document.prefix, document.id)
