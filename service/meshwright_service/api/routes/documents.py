"""What uploads and reads of documents have in common."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection

from meshwright.schema import Document
from meshwright_service.api import etags
from meshwright_service.api.problem_details import MEDIA_TYPE
from meshwright_service.api.resources import DocumentEntry, UploadAnswer, entry_of
from meshwright_service.api.state import State
from meshwright_service.auth.principals import Principal
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.pagination import Page, PageRequest

UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": UploadAnswer, "description": "It was stored already"},
    201: {"model": UploadAnswer, "description": "It is stored; Location names it"},
}
D = TypeVar("D", bound=Document)
D_in = TypeVar("D_in", bound=Document, contravariant=True)


class Put(Protocol[D_in]):
    """Stores a document of a kind; False where the tenant had it already."""

    def __call__(
        self, connection: Connection, tenant: Tenant, document: D_in, /, *,
        now: ColumnElement[float],
    ) -> bool: ...  # fmt: skip


PROBLEM = {"$ref": "#/components/schemas/Problem"}
IN_USE: dict[int | str, dict[str, Any]] = {
    204: {"description": "It is deleted"},
    409: {"description": "Something else needs it", "content": {MEDIA_TYPE: {"schema": PROBLEM}}},
}


def upload(
    service: State, by: Principal, document: D, shelf: str, *, put: Put[D] | None = None
) -> Response:
    """Store a document that a client sent."""
    id_ = document.id
    with service.database.writing() as connection:
        created = (put or documents.put)(connection, by.tenant, document, now=service.database.now)
        entry = documents.entry(connection, by.tenant, document.prefix, id_)
    made = UploadAnswer(id=id_, name=entry.name, summary=entry.summary)
    return told(made, created=created, location=f"{shelf}/{id_}")


def told(made: BaseModel, *, created: bool, location: str | None = None) -> Response:
    """What came of an upload: 201, or 200 where it was there already."""
    return Response(
        made.model_dump_json(),
        status_code=201 if created else 200,
        media_type="application/json",
        headers={} if location is None else {"Location": location},
    )


def entries(service: State, tenant: Tenant, kind: str, page: PageRequest) -> Page[DocumentEntry]:
    """Documents of a kind, the newest first."""
    with service.database.reading() as connection:
        found = documents.list_documents(connection, tenant, kind, page)
    return Page(tuple(map(entry_of, found.items)), found.next_token)


def read_document(
    request: Request, service: State, tenant: Tenant, kind: str, id_: str
) -> Response:
    """A stored document, or 304 where the caller has it."""
    with service.database.reading() as connection:
        if etags.holds(request, id_) and documents.exists(connection, tenant, kind, id_):
            service.shelves.note(request, tenant)
            return etags.not_modified(id_)
        packed = documents.read_packed(connection, tenant, kind, id_)
    return etags.stored_document(request, id_, packed)
