"""Problem details: every error response is application/problem+json (RFC 9457)."""

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

RETRY_S = 10  # chosen: one or two searches end in that time
SOON_S = 1  # chosen: most requests end in that time

log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document.

    `meshwright_service.api.middleware.request_log` answers unhandled exceptions.
    """
    app.add_exception_handler(MeshwrightError, _of_ours)
    app.add_exception_handler(HTTPException, _of_the_framework)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(OperationalError, of_the_database)


def answer(
    error: MeshwrightError, request: Request, headers: dict[str, str] | None = None
) -> Response:
    """The response of an error."""
    more = {**_headers_of(error, request), **(headers or {})}
    return _response(error.problem(instance=request.url.path), more)


def _headers_of(error: MeshwrightError, request: Request) -> dict[str, str]:
    """The headers that HTTP requires for some statuses."""
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
    # in ASCII: a pointer may hold a lone surrogate, which UTF-8 cannot encode
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
    """The message for a path without an endpoint; suggests the path without trailing slashes."""
    path = request.url.path
    without = path.rstrip("/")
    if without != path and _methods_at(request, without):
        return f"there is no endpoint {path}; use {without}, without the slash at the end"
    return f"there is no endpoint {path}"


def _methods(request: Request) -> list[str]:
    """The methods of all routes at the path; the framework reports only those of the first."""
    return _methods_at(request, request.scope["path"])


def _methods_at(request: Request, path: str) -> list[str]:
    ways = iter_route_contexts(request.app.routes)
    scope = {**request.scope, "path": path}
    at_path = [way for way in ways if way.matches(scope)[0] is not Match.NONE]
    return sorted({method for way in at_path for method in way.methods or ()})


def _of_parameters(request: Request, error: Exception) -> Response:
    first = cast(RequestValidationError, error).errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    got = f"{first['input']!r:.100}"  # enough to identify the value
    return answer(ParameterError(f"parameter {name!r}: {first['msg']}, got {got}"), request)


def of_the_database(request: Request, error: Exception) -> Response:
    """The response of an OperationalError, such as a full disk or a lock timeout."""
    reason = cast(OperationalError, error).orig
    log.error("%s %s failed: %s", request.method, request.url.path, reason)
    # without the reason, which may name the host and the user of the database
    return answer(Unavailable("the database cannot answer; the server's log says why"), request)


def of_a_fault(request: Request, error: Exception) -> Response:
    """The response of an unhandled exception, which is logged with its trace."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(Internal("the request failed; the server's log says why"), request)
