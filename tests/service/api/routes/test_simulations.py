"""Simulations over HTTP: numbers and traces of a stored plan."""

from __future__ import annotations

import gzip
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from meshwright.planfile import PlanFile
from meshwright.schema import NotFound
from meshwright.schema.simulation import Simulation
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant
from meshwright_service.common.zstd import unpack
from meshwright_service.plan_views.simulation_view import NUMBERS, SIMULATED, simulated
from meshwright_service.processes.process_pool import WAITING
from meshwright_service.store.tables import DerivedRow
from tests.service.conftest import ROOT, Serve
from tests.service.keyed import state_of
from tests.service.shelved import store
from tests.service.transport import client_of

DIGEST = "d3b9a730799b7d657dcc90fc1e24975fffad4ac5911987ebac89b808bd223d39"
WRITTEN = ROOT / "tests/data/simulated.plan.json.gz"


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


def test_a_plan_is_simulated_when_somebody_asks(service: TestClient) -> None:
    plan = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{plan.id}/simulation")
    assert answer.status_code == 200
    made = Simulation.from_dict(answer.json())
    assert made.plan == plan.id
    assert made.predicted_ns == plan.cost.step_ns
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(f"/v1/plans/{plan.id}/simulation", headers=tag).status_code == 304
    assert service.get("/v1/plans/plan_0/simulation").status_code == 404


def test_its_trace_comes_as_json(service: TestClient) -> None:
    plan = store(service, [2, 4])
    answer = service.get(f"/v1/plans/{plan.id}/timeline")
    assert answer.status_code == 200
    assert answer.json()["otherData"]["plan"] == plan.id
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(f"/v1/plans/{plan.id}/timeline", headers=tag).status_code == 304
    assert service.get("/v1/plans/plan_0/timeline").status_code == 404


def test_the_client_asks_for_both(service: TestClient) -> None:
    plan = store(service, [2, 4])
    client = client_of(service)
    assert client.simulation(plan.id).step_ns > 0
    assert client.timeline(plan.id)["traceEvents"]
    with pytest.raises(NotFound):
        client.simulation("plan_0")


def test_it_is_made_once_for_all_processes(serve: Serve) -> None:
    paths = ("simulation", "timeline", "memory?points=50")
    first, other = serve(workers=0), serve(workers=0, view_memory_bytes=2**28)
    plan, unasked = store(first, [2, 4]), store(first, [1, 4])
    made = [first.get(f"/v1/plans/{plan.id}/{path}") for path in paths]
    again = [other.get(f"/v1/plans/{plan.id}/{path}") for path in paths]
    assert [answer.status_code for answer in made + again] == [200] * 6
    assert [answer.content for answer in made] == [answer.content for answer in again]
    # it has no memory to make another
    assert other.get(f"/v1/plans/{unasked.id}/simulation").status_code == 500


def test_it_is_made_for_each_tenant(serve: Serve) -> None:
    http = serve(workers=0)
    plan = store(http, [2, 4])
    views = state_of(http).views
    views.part(DEFAULT_TENANT, plan.id, SIMULATED, NUMBERS)
    with pytest.raises(NotFound):
        views.part(Tenant("other"), plan.id, SIMULATED, NUMBERS)
    with state_of(http).database.reading() as connection:
        kept = select(DerivedRow.tenant, DerivedRow.name).distinct()
        assert connection.execute(kept).all() == [("default", SIMULATED.name)]


def test_of_many_who_ask_at_once_one_has_it_made(serve: Serve) -> None:
    """Each of the others would be one more than may wait."""
    http = serve(workers=0)
    plan = store(http, [2, 4])
    path = f"/v1/plans/{plan.id}/simulation"
    count = WAITING + 4
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda _: http.get(path), range(count)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1


def test_a_new_simulation_has_a_new_version() -> None:
    """Where this fails, what is kept of plans is old: give it another name, and this its
    digest."""
    file = PlanFile.from_json(gzip.decompress(WRITTEN.read_bytes()))
    assert file.calibration is not None
    names = ("plan", "graph", "topology", "setup", "calibration")
    made = simulated({name: getattr(file, name).to_json().encode() for name in names})
    told = json.dumps([rounded(json.loads(unpack(made[number]))) for number in sorted(made)])
    digest = hashlib.sha256(told.encode()).hexdigest()
    assert (SIMULATED.name, digest) == ("simulated 2", DIGEST)


def rounded(value: Any) -> Any:
    """Machines add up in other orders."""
    match value:
        case float():
            return f"{value:.6g}"
        case dict():
            return {name: rounded(own) for name, own in value.items()}
        case list():
            return [rounded(own) for own in value]
    return value
