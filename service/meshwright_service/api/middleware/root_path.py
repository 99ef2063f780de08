"""The path under which a reverse proxy serves the service, such as /tools/meshwright.

A proxy may remove the path from requests or pass it on. The application sees paths without it in
both cases, so that probes and clients in the same network need not know it. Paths in response
headers have it, because clients resolve them against the URL of the proxy.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINKS = ("Location", "Content-Location")


class RootPath:
    """ASGI middleware that removes the root path from requests, outside of all others."""

    def __init__(self, app: ASGIApp, *, root_path: str) -> None:
        self._app = app
        self._root = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._root:
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_root(MutableHeaders(scope=message))
            await send(message)

        await self._app(self._without_root(scope), receive, sending)

    def _without_root(self, scope: Scope) -> Scope:
        path: str = scope["path"]
        if path != self._root and not path.startswith(f"{self._root}/"):
            return scope
        raw: bytes = scope.get("raw_path") or b""
        return {
            **scope,
            "path": path.removeprefix(self._root) or "/",
            "raw_path": raw.removeprefix(self._root.encode()) or b"/",
        }

    def _add_root(self, headers: MutableHeaders) -> None:
        for name in LINKS:
            if headers.get(name, "").startswith("/"):
                headers[name] = self._root + headers[name]
        if headers.get("Link", "").startswith("</"):
            headers["Link"] = f"<{self._root}{headers['Link'][1:]}"
