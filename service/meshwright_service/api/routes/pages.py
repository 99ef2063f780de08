"""The dashboard: the documents of its pages, and its files."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from meshwright.schema import NotFound
from meshwright_service.api import problem_details, static_files
from meshwright_service.api.etags import holds
from meshwright_service.api.middleware.compression import accepted, compress_once
from meshwright_service.api.page_documents import HEADERS, pages
from meshwright_service.api.state import state_of
from meshwright_service.api.static_files import File

router = APIRouter(include_in_schema=False)


@router.get("/static/{digest}/{name:path}")
def immutable_file(request: Request, digest: str, name: str) -> Response:
    """A file of this version of the dashboard, compressed once; 404 for another version."""
    try:
        found = pages(state_of(request).settings.root_path).file(digest, name)
    except NotFound as error:
        answer = problem_details.answer(error, request)
        answer.headers["Cache-Control"] = "no-store"  # another process may have the version
        return answer
    encoding = accepted(request.headers.get("accept-encoding", ""))
    if encoding is None:
        return Response(found.content, media_type=found.media_type, headers=HEADERS)
    content = compress_once(found.content, encoding)
    headers = {**HEADERS, "Content-Encoding": encoding}
    return Response(content, media_type=found.media_type, headers=headers)


@router.get("/dashboard/{name:path}")
def source_file(request: Request, name: str) -> Response:
    """A source file of the dashboard: a module, a style sheet or the icon."""
    return _revalidated(request, static_files.file(name))


def page(request: Request) -> Response:
    """The document of a page."""
    documents = pages(state_of(request).settings.root_path).documents
    return _revalidated(request, documents[request.scope["route"].path])


def _revalidated(request: Request, found: File) -> Response:
    headers = {**static_files.HEADERS, "ETag": f'"{found.digest}"'}
    if holds(request, found.digest):
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


for path in static_files.PAGES:
    router.add_api_route(path, page)
