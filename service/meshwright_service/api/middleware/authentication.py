"""Authentication middleware: checks Host and Origin, and finds the principal of a request.

It runs before the body is read. Endpoints then require a scope
(`meshwright_service.auth.principals.Needs`). Only paths without tenant data are open.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import OperationalError
from starlette.types import ASGIApp, Receive, Scope, Send

from meshwright.schema import MeshwrightError, Unauthorized
from meshwright_service.api import problem_details, static_files
from meshwright_service.api.middleware.host_check import Hosts
from meshwright_service.auth.authentication import Authentication
from meshwright_service.auth.principals import ANYBODY, Principal
from meshwright_service.common.sockets import is_loopback

OPEN = frozenset({"/healthz", "/readyz"})


class Guard:
    """ASGI middleware that stores the principal in the state of the request."""

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
            if scope["path"] not in OPEN and not static_files.is_open(scope["path"]):
                request.state.principal = await self._principal(request)
        except MeshwrightError as error:
            await problem_details.answer(error, request)(scope, receive, send)
        except OperationalError as failure:
            await problem_details.of_the_database(request, failure)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _principal(self, request: Request) -> Principal:
        credential = self._authentication.credential(request.headers)
        principal = self._authentication.remembered(credential)
        if principal is None:
            principal = await run_in_threadpool(self._authentication.find, credential)
        if principal is ANYBODY and request.client and not is_loopback(request.client.host):
            raise Unauthorized(
                "without keys this service answers only clients on its own machine. Create a key "
                "there: meshwright-server keys create"
            )
        return principal
