"""Request bodies: JSON, plain or compressed, never more than so many bytes once decoded.

The event loop only collects what arrives; decoding and parsing run in the endpoint's thread.
"""

from __future__ import annotations

import asyncio
import json
import math
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import zstandard
from fastapi import Request
from starlette.requests import ClientDisconnect

from meshwright.schema.canonical import MAX_NESTING, read_object
from service.errors import DamagedBody, NotJson, SlowBody, WrongContentType
from service.limits import Limits
from service.state import state_of

# chosen: a zstd block of 4 bytes can stand for 128 KiB, so 256 bytes decode to 8 MiB at most
ZSTD_PIECE = 256


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was sent."""

    data: bytes
    encoding: str
    limits: Limits

    def json(self) -> dict[str, Any]:
        """The JSON object in it; raises TooLarge, DamagedBody, WrongContentType or NotJson."""
        data = self.decoded()
        self.limits.check_values(data)
        try:
            value = json.loads(
                data.decode(),
                parse_constant=_refuse_constant,
                parse_float=_finite,
                object_pairs_hook=read_object,
            )
        except RecursionError:
            raise NotJson(f"the JSON is nested deeper than {MAX_NESTING} levels") from None
        except UnicodeDecodeError as failure:
            raise NotJson(f"this is not JSON, which is written in UTF-8: {failure}") from None
        except ValueError as failure:
            raise NotJson(f"this is not JSON: {failure}") from None
        if not isinstance(value, dict):
            raise NotJson(f"expected a JSON object, got a {type(value).__name__}")
        self.limits.check_json(value)
        return value

    def decoded(self) -> bytes:
        """The bytes without their compression."""
        return _decoder(self.encoding)(self.data, self.limits)


async def read_body(request: Request) -> AsyncIterator[Body]:
    """The body of a request that must carry JSON; its bytes count until the answer is sent."""
    _check_type(request.headers.get("content-type", ""))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    _decoder(encoding)
    service = state_of(request)
    limits, buffer = Limits.of(service.settings), service.buffer
    data = bytearray()
    try:
        try:
            async with asyncio.timeout(service.settings.body_s):
                async for piece in request.stream():
                    limits.check_bytes(len(data) + len(piece))
                    buffer.take(len(piece))
                    data += piece
        except ClientDisconnect:  # nobody is left to read the answer; the log needs no trace of it
            raise DamagedBody("the connection was closed before the end of the body") from None
        except TimeoutError:
            raise SlowBody(
                f"the body did not arrive within {service.settings.body_s:g} s; compress it, or "
                "raise MESHWRIGHT_BODY_S on the server"
            ) from None
        yield Body(bytes(data), encoding, limits)
    finally:
        buffer.give(len(data))


def _check_type(content_type: str) -> None:
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        raise WrongContentType(
            f"the body must be application/json, got {media or 'no content type'!r}; with curl: "
            "-H 'Content-Type: application/json'"
        )


def _decoder(encoding: str) -> Callable[[bytes, Limits], bytes]:
    match encoding:
        case "" | "identity":
            return lambda data, _: data
        case "gzip" | "x-gzip":
            return _gunzip
        case "zstd":
            return _unzstd
    raise WrongContentType(
        f"the content encoding {encoding[:40]!r} is not understood; send gzip, zstd or none"
    )


def _gunzip(data: bytes, limits: Limits) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        decoded = stream.decompress(data, limits.body_bytes + 1)
    except zlib.error as failure:
        raise DamagedBody(f"the body is not valid gzip: {failure}") from None
    limits.check_bytes(len(decoded))
    if not stream.eof:
        raise DamagedBody("the gzip data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the gzip data; send one member")
    return decoded


def _unzstd(data: bytes, limits: Limits) -> bytes:
    # chosen: windows up to 8 MiB, what the format asks every decoder to support
    stream = zstandard.ZstdDecompressor(max_window_size=8 << 20).decompressobj()
    decoded = bytearray()
    view = memoryview(data)
    for start in range(0, len(data), ZSTD_PIECE):
        if stream.eof:
            raise DamagedBody("bytes follow the end of the zstd data; send one frame")
        try:
            decoded += stream.decompress(view[start : start + ZSTD_PIECE])
        except zstandard.ZstdError as failure:
            raise DamagedBody(f"the body is not valid zstd: {failure}") from None
        limits.check_bytes(len(decoded))
    if not stream.eof:
        raise DamagedBody("the zstd data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the zstd data; send one frame")
    return bytes(decoded)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"numbers must be finite, found {text[:40]}")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"numbers must be finite, found {name}")
