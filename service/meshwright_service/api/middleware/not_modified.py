"""Documents that a caller has already: 304 before anything is routed or read.

Controllers and dashboards ask all the time for what they have. Documents never change, so that all
there is to find out is whether the tenant still has this one. That is remembered for KEPT_S: so
long, in each process, one that another process deleted is said to be unchanged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from meshwright_service.api import etags
from meshwright_service.auth.principals import Principal
from meshwright_service.common.lru_cache import Latest
from meshwright_service.common.tenant import Tenant

KEPT_S = 5.0  # chosen: as long as a key is remembered
KEPT = 4096  # paths; chosen: of others the database is asked


@dataclass(frozen=True, slots=True)
class _MatchedRoute:
    """As the router would have found it, for the metrics."""

    path: str


class Shelves:
    """The paths under which tenants lately had a document. Safe to share between threads."""

    def __init__(self) -> None:
        self._kept: Latest[tuple[Tenant, str], tuple[float, str]] = Latest(KEPT)

    def note(self, request: Request, tenant: Tenant) -> None:
        """The tenant has what this request names; ask before the database is asked."""
        route = request.scope["route"].path
        self._kept.keep((tenant, request.scope["path"]), (time.monotonic() + KEPT_S, route))

    def route(self, tenant: Tenant, path: str) -> str | None:
        """The route of the path, where the tenant has had a document there just before."""
        found = self._kept.get((tenant, path))
        return found[1] if found is not None and time.monotonic() < found[0] else None

    def forget(self) -> None:
        """Something was deleted."""
        self._kept = Latest(KEPT)


class Unchanged:
    """ASGI middleware, within the guard."""

    def __init__(self, app: ASGIApp, *, shelves: Shelves) -> None:
        self._app = app
        self._shelves = shelves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]:
            request = Request(scope)
            route = self._route(request)
            if route is not None:
                scope["route"] = _MatchedRoute(route)
                id_ = scope["path"].rpartition("/")[2]
                await etags.not_modified(id_)(scope, receive, send)
                return
        try:
            await self._app(scope, receive, send)
        finally:
            if scope["type"] == "http" and scope["method"] == "DELETE":
                self._shelves.forget()

    def _route(self, request: Request) -> str | None:
        principal: Principal | None = getattr(request.state, "principal", None)
        if principal is None or not principal.may("read"):
            return None
        path = request.scope["path"]
        if not etags.holds(request, path.rpartition("/")[2]):
            return None
        return self._shelves.route(principal.tenant, path)
