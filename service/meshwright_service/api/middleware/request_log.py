"""Request log: the id, the access log, the metrics and the unhandled exceptions of requests.

The id is the client's `X-Request-ID` if it is a plain word, else a new one. The response and every
log line of the request have it.
"""

from __future__ import annotations

import logging
import re
import time
import uuid

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meshwright_service.api import problem_details
from meshwright_service.observability import logs
from meshwright_service.observability.process_metrics import Metrics

log = logging.getLogger(__name__)
HEADER = "X-Request-ID"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
# browsers must not sniff content types or send URLs of the service to other sites
NO_GUESSES = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})  # polled by monitoring


class Requests:
    """ASGI middleware, the outermost one."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id_ = _id_of(Request(scope))
        started_s = time.perf_counter()
        status, first_s = 0, None

        async def sending(message: Message) -> None:
            nonlocal status, first_s
            if message["type"] == "http.response.start":
                status, first_s = message["status"], time.perf_counter() - started_s
                headers = MutableHeaders(scope=message)
                headers[HEADER] = id_
                headers.update(NO_GUESSES)
            await send(message)

        with logs.about(request_id=id_), self._metrics.requests_running.track_inprogress():
            try:
                await self._app(scope, receive, sending)
            except Exception as fault:
                answer = problem_details.of_a_fault(Request(scope), fault)
                if first_s is None:
                    await answer(scope, receive, sending)
            finally:
                seconds = time.perf_counter() - started_s
                self._note(scope, status, seconds if first_s is None else first_s, seconds)

    def _note(self, scope: Scope, status: int, first_s: float, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        status_label = str(status or "gone")  # the client disconnected before a response
        self._metrics.requests.labels(method, route, status_label).inc()
        self._metrics.request_seconds.labels(method, route).observe(first_s)
        principal = scope.get("state", {}).get("principal")
        log.log(
            logging.DEBUG if scope["path"] in QUIET else logging.INFO,
            "%s %s %s",
            method,
            scope["path"],
            status_label,
            extra={
                "method": method,
                "path": scope["path"],
                "status": status,
                "seconds": round(seconds, 6),
                **({"tenant": principal.tenant} if principal is not None else {}),
                **({"key": principal.key} if principal is not None and principal.key else {}),
            },
        )


def _id_of(request: Request) -> str:
    ids = request.headers.getlist(HEADER)
    if len(ids) == 1 and WORD.fullmatch(ids[0]):
        return ids[0]
    return uuid.uuid4().hex
