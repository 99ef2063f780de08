"""Whether the process lives and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy.exc import SQLAlchemyError

from meshwright.schema import Unavailable
from service.state import Service

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the process alive")
def healthz() -> dict[str, str]:
    """Answers as long as the process does."""
    return {"status": "ok"}


@router.get("/readyz", summary="Can the service work")
def readyz(service: Service) -> dict[str, str]:
    """The database answers and has the newest schema; 503 otherwise."""
    try:
        current = service.database.is_current()
    except SQLAlchemyError as failure:
        raise Unavailable(f"the database does not answer: {type(failure).__name__}") from None
    if not current:
        raise Unavailable("the database has an older schema; run the migrations")
    return {"status": "ok"}
