"""Shared handlers for uploads, reads and lists of documents."""

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
    200: {"model": UploadAnswer, "description": "The document was stored before"},
    201: {"model": UploadAnswer, "description": "The document is stored; Location names it"},
}
D = TypeVar("D", bound=Document)
D_in = TypeVar("D_in", bound=Document, contravariant=True)


class Put(Protocol[D_in]):
    """Stores a document of a kind; returns False if the tenant had it."""

    def __call__(
        self, connection: Connection, tenant: Tenant, document: D_in, /, *,
        now: ColumnElement[float],
    ) -> bool: ...  # fmt: skip


PROBLEM = {"$ref": "#/components/schemas/Problem"}
IN_USE: dict[int | str, dict[str, Any]] = {
    204: {"description": "Deleted"},
    409: {"description": "Another resource needs it", "content": {MEDIA_TYPE: {"schema": PROBLEM}}},
}


def upload(
    service: State, by: Principal, document: D, path: str, *, put: Put[D] | None = None
) -> Response:
    """Store a document of a client; `path` is the path of its collection."""
    id_ = document.id
    with service.database.writing() as connection:
        created = (put or documents.put)(connection, by.tenant, document, now=service.database.now)
        entry = documents.entry(connection, by.tenant, document.prefix, id_)
    answer = UploadAnswer(id=id_, name=entry.name, summary=entry.summary)
    return told(answer, created=created, location=f"{path}/{id_}")


def told(answer: BaseModel, *, created: bool, location: str | None = None) -> Response:
    """The response of an upload: 201 if it created the resource, else 200."""
    return Response(
        answer.model_dump_json(),
        status_code=201 if created else 200,
        media_type="application/json",
        headers={} if location is None else {"Location": location},
    )


def entries(service: State, tenant: Tenant, kind: str, page: PageRequest) -> Page[DocumentEntry]:
    """Documents of a kind, newest first."""
    with service.database.reading() as connection:
        listed = documents.list_documents(connection, tenant, kind, page)
    return Page(tuple(map(entry_of, listed.items)), listed.next_token)


def read_document(
    request: Request, service: State, tenant: Tenant, kind: str, id_: str
) -> Response:
    """The response with a stored document, or 304 if the client has it."""
    with service.database.reading() as connection:
        if etags.holds(request, id_) and documents.exists(connection, tenant, kind, id_):
            service.document_paths.note(request, tenant)
            return etags.not_modified(id_)
        packed = documents.read_packed(connection, tenant, kind, id_)
    return etags.stored_document(request, id_, packed)
