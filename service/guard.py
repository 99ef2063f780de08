"""The door: every request passes it before anything else of it is read.

Host and Origin are checked, and who asks is found out; endpoints then say which scope they need
(`service.principals.Needs`). Only what tells nothing of anybody is open.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import OperationalError
from starlette.types import ASGIApp, Receive, Scope, Send

from meshwright.schema import MeshwrightError, Unauthorized
from service import problems, site
from service.authentication import Authentication, secret_of
from service.hosts import Hosts
from service.listening import is_loopback
from service.principals import ANYBODY, Principal

OPEN = frozenset({"/healthz", "/readyz"})


class Guard:
    """ASGI middleware; leaves the principal in the request's state."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, authentication: Authentication) -> None:
        self._app = app
        self._hosts = hosts
        self._authentication = authentication

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            self._hosts.check(request)
            if scope["path"] not in OPEN and not site.is_open(scope["path"]):
                request.state.principal = await self._principal(request)
        except MeshwrightError as error:
            await problems.answer(error, request)(scope, receive, send)
        except OperationalError as failure:
            await problems.of_the_database(request, failure)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _principal(self, request: Request) -> Principal:
        secret = secret_of(request.headers.getlist("authorization"))
        found = self._authentication.remembered(secret)
        if found is None:
            found = await run_in_threadpool(self._authentication.find, secret)
        if found is ANYBODY and request.client and not is_loopback(request.client.host):
            raise Unauthorized(
                "without keys this service answers its own machine alone; make one there: "
                "meshwright-server keys create"
            )
        return found
