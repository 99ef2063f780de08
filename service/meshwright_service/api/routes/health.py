"""Health checks: liveness and readiness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fastapi import APIRouter
from sqlalchemy import delete, insert
from sqlalchemy.exc import SQLAlchemyError

from meshwright.schema import Unavailable
from meshwright_service.api.state import Service, State
from meshwright_service.store.database import AWAY, Database
from meshwright_service.store.tables import ChoreRow

PROBE = "probe"  # name of the row that tests writes
LEAST_FREE_BYTES = 16 * 2**20  # chosen: disk space for the log of a SQLite store and some plans
router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Check liveness")
async def healthz() -> dict[str, str]:
    """Liveness: answers from the event loop, independent of the threads."""
    return {"status": "ok"}


@router.get("/readyz", summary="Check readiness")
def readyz(service: Service) -> dict[str, str]:
    """Readiness: the database answers, has the current schema and accepts writes, and the workers
    run; else 503 with the reason."""
    missing = list(_missing(service))
    if missing:
        raise Unavailable("; ".join(missing))
    return {"status": "ok"}


def _missing(service: State) -> Iterator[str]:
    if service.stopping.is_set():
        yield "the service is shutting down"
    dead = sum(not worker.is_alive() for worker in service.workers)
    if dead and not service.stopping.is_set():
        yield f"{dead} of {len(service.workers)} workers have ended"
    try:
        revision, newest = service.database.revision(), service.database.newest()
    except SQLAlchemyError as failure:
        yield f"the database does not answer: {type(failure).__name__}"
        return
    if revision != newest:
        yield (
            f"the database has the schema {revision or 'of nothing'}, this program needs {newest}: "
            "meshwright-server db upgrade"
        )
        return
    yield from _unwritable(service.database)


def _unwritable(database: Database) -> Iterator[str]:
    """The reasons why the store accepts no writes; a failed write is retried first."""
    if database.write_failure is not None:
        with suppress(*AWAY), database.writing() as connection:
            connection.execute(delete(ChoreRow).where(ChoreRow.name == PROBE))
            connection.execute(insert(ChoreRow).values(name=PROBE, done=database.now))
    if database.write_failure is not None:
        yield f"the database takes no writes: {database.write_failure}"
    free = database.free_bytes()
    if free is not None and free < LEAST_FREE_BYTES:
        yield f"the disk of the store has {free >> 20} MiB left; free some space"
