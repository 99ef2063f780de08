"""Answers that never change: the digest as ETag, 304 for who has it already."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response

from meshwright.schema import Document
from meshwright_service.api.middleware.compression import accepted
from meshwright_service.common.zstd import unpack

MEDIA_TYPE = "application/json"
NOT_MODIFIED = {"description": "The caller has it: If-None-Match names its ETag"}


def headers_of(id_: str) -> dict[str, str]:
    """The headers of a content-addressed document."""
    # a browser that comes with another key asks again
    return {
        "ETag": f'"{id_}"',
        "Cache-Control": "private, max-age=31536000, immutable",
        "Vary": "Authorization",
    }


def holds(request: Request, id_: str) -> bool:
    """Whether the caller said that it has the document."""
    given = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    return "*" in tags or f'"{id_}"' in tags


def not_modified(id_: str) -> Response:
    return Response(status_code=304, headers=headers_of(id_))


def document(id_: str, body: bytes, **more: str) -> Response:
    """A stored document as it is."""
    return Response(body, media_type=MEDIA_TYPE, headers={**headers_of(id_), **more})


def packed_document(id_: str, packed: bytes, **more: str) -> Response:
    """The same for who takes zstd: other bytes, hence a weak ETag."""
    headers = {**headers_of(id_), "ETag": f'W/"{id_}"', "Content-Encoding": "zstd"}
    return Response(packed, media_type=MEDIA_TYPE, headers={**headers, **more})


def stored_document(request: Request, id_: str, packed: bytes, **more: str) -> Response:
    """A document from the store, as the caller takes it."""
    if accepted(request.headers.get("accept-encoding", "")) == "zstd":
        return packed_document(id_, packed, **more)
    return document(id_, unpack(packed), **more)


def recent(request: Request, made: Document) -> Response:
    """What was worked out when it was asked for: a newer version of the service may say more."""
    return _recent(request, made.id, made)


def recent_text(request: Request, text: str) -> Response:
    """The same of what has no id of its own: the digest of its JSON is the ETag."""
    return _recent(request, hashlib.sha256(text.encode()).hexdigest(), text)


def recent_body(id_: str, body: bytes) -> Response:
    """The same under an ETag that says what it was worked out from, and how."""
    return Response(body, media_type=MEDIA_TYPE, headers=_recent_headers(id_))


def recent_not_modified(id_: str) -> Response:
    """The caller has that."""
    return Response(status_code=304, headers=_recent_headers(id_))


def _recent(request: Request, tag: str, made: Document | str) -> Response:
    if holds(request, tag):
        return recent_not_modified(tag)
    text = made if isinstance(made, str) else made.to_json()
    return recent_body(tag, text.encode())


def _recent_headers(id_: str) -> dict[str, str]:
    return {**headers_of(id_), "Cache-Control": "private, no-cache"}
