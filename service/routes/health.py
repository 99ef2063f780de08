"""Whether the process lives and whether it can work."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from sqlalchemy.exc import SQLAlchemyError

from meshwright.schema import Unavailable
from service.state import Service, State

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the process alive")
def healthz() -> dict[str, str]:
    """Answers as long as the process does."""
    return {"status": "ok"}


@router.get("/readyz", summary="Can the service work")
def readyz(service: Service) -> dict[str, str]:
    """The database answers and has the newest schema, and the workers run; else 503, and why."""
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
        found, newest = service.database.revision(), service.database.newest()
    except SQLAlchemyError as failure:
        yield f"the database does not answer: {type(failure).__name__}"
        return
    if found != newest:
        yield (
            f"the database has the schema {found or 'of nothing'}, this program needs {newest}: "
            "meshwright-server db upgrade"
        )
