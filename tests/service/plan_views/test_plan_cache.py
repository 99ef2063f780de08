"""Plans that were read last: read once for a tenant, as many as there is room for."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from meshwright.schema import Graph, NotFound, Plan, Topology
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant
from meshwright_service.plan_views import plan_cache
from meshwright_service.plan_views.plan_cache import PlanCache
from meshwright_service.store import documents
from meshwright_service.store.encoded_documents import stored_plan
from tests.service.conftest import Serve
from tests.service.keyed import state_of
from tests.service.samples import GRAPH, TOPOLOGY
from tests.service.shelved import store

OTHER = Tenant("other")


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


@pytest.fixture
def plans(service: TestClient) -> list[Plan]:
    return [store(service, levels) for levels in ([2, 4], [1, 4], [4, 4])]


def test_a_plan_is_read_once_for_a_tenant(service: TestClient, plans: list[Plan]) -> None:
    database = state_of(service).database
    own = PlanCache(database)
    found = own.of(DEFAULT_TENANT, plans[0].id)
    assert found.plan == plans[0]
    assert own.of(DEFAULT_TENANT, plans[0].id) is found
    with pytest.raises(NotFound):
        own.of(OTHER, plans[0].id)
    with database.writing() as connection:
        for document in (Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)):
            documents.put(connection, OTHER, document, now=database.now)
        documents.put_plan(connection, OTHER, stored_plan(plans[0]), now=database.now)
    assert own.of(OTHER, plans[0].id) is not found


def test_large_plans_make_room_for_each_other(
    service: TestClient, plans: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = PlanCache(state_of(service).database)
    sizes = [own.of(DEFAULT_TENANT, plan.id).content_bytes for plan in plans]
    monkeypatch.setattr(plan_cache, "KEPT_BYTES", sum(sizes) - min(sizes))
    kept = PlanCache(state_of(service).database)
    first, _, last = (kept.of(DEFAULT_TENANT, plan.id) for plan in plans)
    assert kept.of(DEFAULT_TENANT, plans[2].id) is last
    assert kept.of(DEFAULT_TENANT, plans[0].id) is not first
    monkeypatch.setattr(plan_cache, "KEPT_BYTES", 1)
    kept = PlanCache(state_of(service).database)
    alone = kept.of(DEFAULT_TENANT, plans[1].id)
    assert kept.of(DEFAULT_TENANT, plans[1].id) is alone
