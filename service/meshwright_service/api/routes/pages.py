"""The dashboard: one document for all pages, and its files."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from meshwright_service.api import static_files
from meshwright_service.api.etags import holds

router = APIRouter(include_in_schema=False)


@router.get("/dashboard/{name:path}")
def file(request: Request, name: str) -> Response:
    """A module, a style sheet, the icon."""
    found = static_files.file(name)
    headers = {**static_files.HEADERS, "ETag": f'"{found.digest}"'}
    if holds(request, found.digest):
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


def page(request: Request) -> Response:
    """Any page."""
    return file(request, "index.html")


for path in static_files.PAGES:
    router.add_api_route(path, page)
