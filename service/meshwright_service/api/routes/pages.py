"""The dashboard: its files, and one document for all pages."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from meshwright_service.api import static_files
from meshwright_service.api.etags import holds

router = APIRouter(include_in_schema=False)


@router.get("/dashboard/{name:path}")
def file(request: Request, name: str) -> Response:
    """A file of the dashboard: a module, a style sheet or the icon."""
    dashboard_file = static_files.file(name)
    headers = {**static_files.HEADERS, "ETag": f'"{dashboard_file.digest}"'}
    if holds(request, dashboard_file.digest):
        return Response(status_code=304, headers=headers)
    return Response(dashboard_file.content, media_type=dashboard_file.media_type, headers=headers)


def page(request: Request) -> Response:
    """The document of any page."""
    return file(request, "index.html")


for path in static_files.PAGES:
    router.add_api_route(path, page)
