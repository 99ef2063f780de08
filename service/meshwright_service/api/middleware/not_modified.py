"""304 answers for immutable documents, before routing and without the database.

Clients often request documents that they have. Documents are immutable, so the only question is
whether the tenant still has one. Each process caches that for KEPT_S; for that time a document that
another process deleted is still answered with 304.
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

KEPT_S = 5.0  # chosen: equal to the cache of keys
KEPT = 4096  # paths; chosen: others need a query of the database


@dataclass(frozen=True, slots=True)
class _MatchedRoute:
    """The route of a request that is answered before routing, for the metrics."""

    path: str


class DocumentPaths:
    """LRU cache of the paths at which tenants have a document. Safe to share between threads."""

    def __init__(self) -> None:
        self._kept: Latest[tuple[Tenant, str], tuple[float, str]] = Latest(KEPT)

    def note(self, request: Request, tenant: Tenant) -> None:
        """Cache that the tenant has the document of this request."""
        route = request.scope["route"].path
        self._kept.keep((tenant, request.scope["path"]), (time.monotonic() + KEPT_S, route))

    def route(self, tenant: Tenant, path: str) -> str | None:
        """The route of the path, if the tenant is known to have a document there; else None."""
        entry = self._kept.get((tenant, path))
        return entry[1] if entry is not None and time.monotonic() < entry[0] else None

    def forget(self) -> None:
        """Clear the cache, after a deletion."""
        self._kept = Latest(KEPT)


class NotModified:
    """ASGI middleware inside the authentication: answers 304 for known documents."""

    def __init__(self, app: ASGIApp, *, paths: DocumentPaths) -> None:
        self._app = app
        self._paths = paths

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
                self._paths.forget()

    def _route(self, request: Request) -> str | None:
        principal: Principal | None = getattr(request.state, "principal", None)
        if principal is None or not principal.may("read"):
            return None
        path = request.scope["path"]
        if not etags.holds(request, path.rpartition("/")[2]):
            return None
        return self._paths.route(principal.tenant, path)
