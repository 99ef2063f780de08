"""What uploads and reads of documents have in common."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from meshwright.schema import Document
from service import documents, immutable
from service.resources import Stored
from service.state import State

UPLOAD: dict[int | str, dict[str, Any]] = {
    200: {"model": Stored, "description": "It was stored already"},
    201: {"model": Stored, "description": "It is stored; Location names it"},
}


def upload(service: State, document: Document, shelf: str) -> Response:
    """Store a document that a client sent."""
    id_ = document.id
    with service.database.writing() as connection:
        created = documents.put(connection, document, now=service.database.now)
        entry = documents.entry(connection, document.prefix, id_)
    return Response(
        Stored(id=id_, name=entry.name, summary=entry.summary).model_dump_json(),
        status_code=201 if created else 200,
        media_type="application/json",
        headers={"Location": f"{shelf}/{id_}"},
    )


def read_document(request: Request, service: State, kind: str, id_: str) -> Response:
    """A stored document, or 304 where the caller has it."""
    with service.database.reading() as connection:
        if immutable.holds(request, id_) and documents.exists(connection, kind, id_):
            return immutable.not_modified(id_)
        body = documents.read(connection, kind, id_)
    return immutable.document(id_, body)
