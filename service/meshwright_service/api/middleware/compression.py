"""Compression of responses: zstd, else gzip, as the client accepts.

The ETag of a compressed response is weak, because the bytes differ (RFC 9110, 8.8.3). Streamed
responses, such as events, are not compressed.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache

import zstandard
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST = 1024  # bytes; chosen: less fits into one packet
LONG = 1 << 18  # bytes; chosen: compressing more would block the event loop for milliseconds


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=1, mtime=0)


# best first
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {"zstd": _zstd, "gzip": _gzip}


@cache
def compress_once(content: bytes, encoding: str) -> bytes:
    """Content of a process's lifetime at the highest level; it is compressed once."""
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=19).compress(content)
    return gzip.compress(content, compresslevel=9, mtime=0)


class Compression:
    """ASGI middleware that compresses responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        encoding = accepted(Request(scope).headers.get("accept-encoding", ""))
        held: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start":
                held = message
                return
            if held is not None:
                start, held = held, None
                MutableHeaders(scope=start).add_vary_header("Accept-Encoding")
                if encoding is not None and not message.get("more_body", False):
                    await _compress(start, message, encoding)
                await send(start)
            await send(message)

        await self._app(scope, receive, sending)


async def _compress(start: Message, message: Message, encoding: str) -> None:
    body = message.get("body", b"")
    headers = MutableHeaders(scope=start)
    if len(body) < SMALLEST or "content-encoding" in headers:
        return
    compress = ENCODINGS[encoding]
    small = compress(body) if len(body) < LONG else await run_in_threadpool(compress, body)
    message["body"] = small
    headers["Content-Encoding"] = encoding
    headers["Content-Length"] = str(len(small))
    if headers.get("etag", "").startswith('"'):
        headers["ETag"] = f"W/{headers['etag']}"


def accepted(header: str) -> str | None:
    """The best encoding that an Accept-Encoding header allows; None for no compression."""
    allowed: dict[str, bool] = {}
    for item in header.split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        allowed[name] = not any(_is_none(parameter) for parameter in parameters)
    rest = allowed.get("*", False)
    return next((name for name in ENCODINGS if allowed.get(name, rest)), None)


def _is_none(parameter: str) -> bool:
    """Whether a parameter excludes an encoding: q=0, q=0.000."""
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and set(value.strip()) <= set("0.") and bool(value.strip())
