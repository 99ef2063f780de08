"""What one rank of a stored plan does, over HTTP."""

from __future__ import annotations

from starlette.testclient import TestClient

from meshwright.runtime import rank_strategy
from meshwright.schema.rank_strategy import RankStrategy
from meshwright_service.api.state import State
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import documents
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_solver.planning.planner import plan
from tests.runtime.test_ranks import DEVICES, GRAPH, SETUP
from tests.service.conftest import Serve
from tests.solver.requests import toy_request


def test_the_service_slices_a_plan_as_a_file_is_sliced(serve: Serve) -> None:
    planned = plan(toy_request(graph=GRAPH, topology=DEVICES, setup=SETUP)).plan
    assert planned is not None
    client: TestClient = serve(workers=0)
    service: State = client.app.state.service  # type: ignore[attr-defined]  # a FastAPI app
    with service.database.writing() as connection:
        for document in (GRAPH, SETUP, DEVICES):
            documents.put(connection, DEFAULT_TENANT, document, now=service.database.now)
        documents.put_plan(
            connection, DEFAULT_TENANT, stored_plan(planned), now=service.database.now
        )
    path = f"/v1/plans/{planned.id}/ranks/3/strategy"
    answer = client.get(path)
    assert RankStrategy.from_json(answer.content) == rank_strategy(planned, GRAPH, SETUP, 3)
    tag = answer.headers["etag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    missing = client.get(f"/v1/plans/{planned.id}/ranks/4/strategy")
    assert missing.status_code == 422
    assert "no rank 4" in missing.json()["detail"]
