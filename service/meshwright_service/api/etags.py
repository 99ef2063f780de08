"""ETags and cache headers: the digest of an answer is its ETag."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response

from meshwright.schema import Document
from meshwright_service.api.middleware.compression import accepted
from meshwright_service.common.zstd import unpack

MEDIA_TYPE = "application/json"
NOT_MODIFIED = {"description": "Not modified: If-None-Match names the ETag"}


def headers_of(id_: str) -> dict[str, str]:
    """The headers of a content-addressed document."""
    # Vary: a browser with another key must not use the cache
    return {
        "ETag": f'"{id_}"',
        "Cache-Control": "private, max-age=31536000, immutable",
        "Vary": "Authorization",
    }


def holds(request: Request, id_: str) -> bool:
    """Whether If-None-Match of the request names the document."""
    header = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in tags or f'"{id_}"' in tags


def not_modified(id_: str) -> Response:
    return Response(status_code=304, headers=headers_of(id_))


def document(id_: str, body: bytes, **more: str) -> Response:
    """The response of a stored document, uncompressed."""
    return Response(body, media_type=MEDIA_TYPE, headers={**headers_of(id_), **more})


def packed_document(id_: str, packed: bytes, **more: str) -> Response:
    """The response of a stored document with zstd encoding, and so with a weak ETag."""
    headers = {**headers_of(id_), "ETag": f'W/"{id_}"', "Content-Encoding": "zstd"}
    return Response(packed, media_type=MEDIA_TYPE, headers={**headers, **more})


def stored_document(request: Request, id_: str, packed: bytes, **more: str) -> Response:
    """The response of a stored document, in the encoding that the client accepts."""
    if accepted(request.headers.get("accept-encoding", "")) == "zstd":
        return packed_document(id_, packed, **more)
    return document(id_, unpack(packed), **more)


def recent(request: Request, computed: Document) -> Response:
    """The response of a computed document, to be revalidated: a new version may compute another."""
    return _recent(request, computed.id, computed)


def recent_text(request: Request, text: str) -> Response:
    """The response of a computed JSON text, to be revalidated; its digest is the ETag."""
    return _recent(request, hashlib.sha256(text.encode()).hexdigest(), text)


def recent_body(id_: str, body: bytes) -> Response:
    """The response of a computed body, to be revalidated; `id_` is the ETag."""
    return Response(body, media_type=MEDIA_TYPE, headers=_recent_headers(id_))


def recent_not_modified(id_: str) -> Response:
    """The 304 response to a request with the ETag `id_` of a computed body."""
    return Response(status_code=304, headers=_recent_headers(id_))


def _recent(request: Request, tag: str, content: Document | str) -> Response:
    if holds(request, tag):
        return recent_not_modified(tag)
    text = content if isinstance(content, str) else content.to_json()
    return recent_body(tag, text.encode())


def _recent_headers(id_: str) -> dict[str, str]:
    return {**headers_of(id_), "Cache-Control": "private, no-cache"}
