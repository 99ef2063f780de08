"""Health checks: whether the process lives and can work, however busy, however full the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest
from anyio.to_thread import current_default_thread_limiter
from sqlalchemy import Connection, RootTransaction
from sqlalchemy.exc import OperationalError

from meshwright_service.observability.outages import Outage
from meshwright_service.store.database import Database
from tests.service.conftest import Serve
from tests.service.keyed import state_of
from tests.service.samples import REQUEST


def test_liveness_needs_no_thread_of_the_pool(serve: Serve) -> None:
    http = serve(workers=0)
    assert http.portal is not None
    limiter = http.portal.call(current_default_thread_limiter)
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    with ThreadPoolExecutor(2) as callers:
        for borrower in borrowers:
            http.portal.call(limiter.acquire_on_behalf_of_nowait, borrower)
        try:
            assert callers.submit(http.get, "/healthz").result(timeout=120).status_code == 200
            ready = callers.submit(http.get, "/readyz")
            assert not wait([ready], timeout=0.5).done  # the threads are really taken
        finally:
            for borrower in borrowers:
                http.portal.call(limiter.release_on_behalf_of, borrower)
        assert ready.result(timeout=120).status_code == 200


@contextmanager
def full_disk(database: Database) -> Iterator[None]:
    """Transactions that would write fail as they do on a full disk.

    `begin` is replaced in one step: an event listener would be added to a list that the threads
    of the service are reading.
    """
    begin = Connection.begin

    def refuse(connection: Connection) -> RootTransaction:
        writes = connection.get_execution_options().get("writes")
        if writes and connection.engine is database.engine:
            raise OperationalError("BEGIN", {}, Exception("database or disk is full"))
        return begin(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "begin", refuse)
        yield


def test_a_store_that_takes_no_writes_is_not_ready_until_it_does(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    http = serve("tiny")
    assert http.get("/readyz").status_code == 200
    with full_disk(state_of(http).database):
        assert http.post("/v1/plan", json=REQUEST).status_code == 503
        answer = http.get("/readyz")
        assert answer.status_code == 503
        assert "the database takes no writes: database or disk is full" in answer.json()["detail"]
        assert http.get("/v1/plans").status_code == 200
        time.sleep(2)  # a worker that looks 50 times a second goes on looking
    said = [line for line in caplog.records if line.name == "meshwright_service.workers.worker"]
    assert 1 <= len(said) <= 2
    assert not any(line.exc_info for line in said)
    assert http.get("/readyz").status_code == 200
    assert http.post("/v1/plan", json=REQUEST, headers={"Prefer": "wait=60"}).status_code == 200


def test_a_disk_that_is_nearly_full_is_told(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    http = serve(workers=0)
    free = state_of(http).database.free_bytes()
    assert http.get("/readyz").status_code == 200
    if free is not None:  # a PostgreSQL server's disk is not this machine's
        monkeypatch.setattr("meshwright_service.api.routes.health.LEAST_FREE_BYTES", free * 2)
        answer = http.get("/readyz")
        assert answer.status_code == 503
        assert "MiB left; free some space" in answer.json()["detail"]


def test_an_outage_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    outage = Outage(logging.getLogger("of.a.test"), "it cannot write", lambda: now[0])
    with caplog.at_level(logging.INFO, "of.a.test"):
        pauses = []
        while now[0] < 600:
            pauses.append(outage.failed(OSError("the disk is full\nand more")))
            now[0] += pauses[-1]
        outage.ended()
        outage.ended()
    assert pauses[:7] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5])
    assert pauses[-1] == 5
    first, *others, last = caplog.messages
    assert first == "it cannot write: the disk is full; it tries again"
    assert len(others) == 9
    assert others[0].startswith("it cannot write for 6")
    assert last.startswith("over after 60")
