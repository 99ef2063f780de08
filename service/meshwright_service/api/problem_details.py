"""Every error leaves the service as application/problem+json (RFC 9457)."""

from __future__ import annotations

import json
import logging
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from meshwright.schema import MeshwrightError, TooManyJobs, Unauthorized, Unavailable
from meshwright_service.api.state import state_of
from meshwright_service.common.errors import (
    Busy,
    HttpError,
    Internal,
    NoSuchPage,
    NotAllowed,
    ParameterError,
    SlowBody,
    TooManyWaits,
)

MEDIA_TYPE = "application/problem+json"
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details; `errors` points into the document that was sent.",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:meshwright:problem:invalid-graph"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}

RETRY_S = 10  # chosen: a search or two end in that time
SOON_S = 1  # chosen: most requests end in that time

log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document; faults are
    `meshwright_service.api.middleware.request_log`'."""
    app.add_exception_handler(MeshwrightError, _of_ours)
    app.add_exception_handler(HTTPException, _of_the_framework)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(OperationalError, of_the_database)


def answer(
    error: MeshwrightError, request: Request, headers: dict[str, str] | None = None
) -> Response:
    """The error as a response."""
    more = {**_headers_of(error, request), **(headers or {})}
    return _response(error.problem(instance=request.url.path), more)


def _headers_of(error: MeshwrightError, request: Request) -> dict[str, str]:
    """What HTTP asks of some statuses."""
    match error:
        case Unauthorized():
            return {"WWW-Authenticate": state_of(request).authentication.challenge}
        case TooManyJobs():
            return {"Retry-After": str(RETRY_S)}
        case Busy() | TooManyWaits():
            return {"Retry-After": str(SOON_S)}
        case SlowBody():
            return {"Connection": "close"}
    return {}


def _response(problem: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    # in ASCII: a pointer may hold half a character, which is not to be had in UTF-8
    text = json.dumps(problem, separators=(",", ":"))
    return Response(text, problem["status"], headers=headers, media_type=MEDIA_TYPE)


def _of_ours(request: Request, error: Exception) -> Response:
    return answer(cast(MeshwrightError, error), request)


def _of_the_framework(request: Request, error: Exception) -> Response:
    failure = cast(HTTPException, error)
    headers = dict(failure.headers or {})
    if failure.status_code == 404:
        return answer(NoSuchPage(_no_endpoint(request)), request, headers)
    if failure.status_code == 405:
        headers["Allow"] = allowed = ", ".join(_methods(request))
        detail = f"{request.url.path} answers {allowed}, not {request.method}"
        return answer(NotAllowed(detail), request, headers)
    problem = HttpError(str(failure.detail)).problem(instance=request.url.path)
    problem["status"] = failure.status_code
    return _response(problem, headers)


def _no_endpoint(request: Request) -> str:
    """Why a path has no endpoint; the path without slashes at its end where that has one."""
    path = request.url.path
    without = path.rstrip("/")
    if without != path and _methods_at(request, without):
        return f"there is no endpoint {path}; use {without}, without the slash at the end"
    return f"there is no endpoint {path}"


def _methods(request: Request) -> list[str]:
    """Of all routes at a path; the framework tells those of the first."""
    return _methods_at(request, request.scope["path"])


def _methods_at(request: Request, path: str) -> list[str]:
    ways = iter_route_contexts(request.app.routes)
    scope = {**request.scope, "path": path}
    at_path = [way for way in ways if way.matches(scope)[0] is not Match.NONE]
    return sorted({method for way in at_path for method in way.methods or ()})


def _of_parameters(request: Request, error: Exception) -> Response:
    first = cast(RequestValidationError, error).errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    got = f"{first['input']!r:.100}"  # as much as tells which it was
    return answer(ParameterError(f"parameter {name!r}: {first['msg']}, got {got}"), request)


def of_the_database(request: Request, error: Exception) -> Response:
    """Of an OperationalError: a full disk, a lock held too long. No program could do better."""
    said = cast(OperationalError, error).orig
    log.error("%s %s failed: %s", request.method, request.url.path, said)
    # what it said may name its host and its user
    return answer(Unavailable("the database cannot answer; the server's log says why"), request)


def of_a_fault(request: Request, error: Exception) -> Response:
    """Of what nothing else answers: the log has the trace."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(Internal("the request failed; the server's log says why"), request)
