"""Answers that never change: the digest as ETag, 304 for who has it already."""

from __future__ import annotations

from fastapi import Request, Response

MEDIA_TYPE = "application/json"


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
