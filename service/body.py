"""Request bodies: JSON, plain or compressed, never more than so many bytes once decoded.

The event loop only collects what arrives; decoding and parsing run in the endpoint's thread.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zstandard
from fastapi import Request
from starlette.requests import ClientDisconnect

from meshwright.schema import TooLarge
from meshwright.schema.canonical import MAX_NESTING, read_object
from service.errors import DamagedBody, NotJson, WrongContentType
from service.state import state_of

# chosen: a zstd block of 4 bytes can stand for 128 KiB, so 256 bytes decode to 8 MiB at most
ZSTD_PIECE = 256


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was sent."""

    data: bytes
    encoding: str
    limit: int

    def json(self) -> dict[str, Any]:
        """The JSON object in it; raises TooLarge, DamagedBody, WrongContentType or NotJson."""
        try:
            value = json.loads(
                self.decoded(),
                parse_constant=_refuse_constant,
                parse_float=_finite,
                object_pairs_hook=read_object,
            )
        except RecursionError:
            raise NotJson(f"the JSON is nested deeper than {MAX_NESTING} levels") from None
        except ValueError as failure:
            raise NotJson(f"this is not JSON: {failure}") from None
        if not isinstance(value, dict):
            raise NotJson(f"expected a JSON object, got a {type(value).__name__}")
        return value

    def decoded(self) -> bytes:
        """The bytes without their compression."""
        return _decoder(self.encoding)(self.data, self.limit)


async def read_body(request: Request) -> Body:
    """The body of a request that must carry JSON."""
    _check_type(request.headers.get("content-type", ""))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    _decoder(encoding)
    limit = state_of(request).settings.max_body_bytes
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > limit:
                raise _too_large(limit)
    except ClientDisconnect:  # nobody is left to read the answer; the log needs no trace of it
        raise DamagedBody("the connection was closed before the end of the body") from None
    return Body(bytes(data), encoding, limit)


def _check_type(content_type: str) -> None:
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        raise WrongContentType(
            f"the body must be application/json, got {media or 'no content type'!r}; with curl: "
            "-H 'Content-Type: application/json'"
        )


def _decoder(encoding: str) -> Callable[[bytes, int], bytes]:
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


def _gunzip(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        decoded = stream.decompress(data, limit + 1)
    except zlib.error as failure:
        raise DamagedBody(f"the body is not valid gzip: {failure}") from None
    if len(decoded) > limit:
        raise _too_large(limit)
    if not stream.eof:
        raise DamagedBody("the gzip data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the gzip data; send one member")
    return decoded


def _unzstd(data: bytes, limit: int) -> bytes:
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
        if len(decoded) > limit:
            raise _too_large(limit)
    if not stream.eof:
        raise DamagedBody("the zstd data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the zstd data; send one frame")
    return bytes(decoded)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body has more than {limit:,} bytes once decoded; send a smaller graph, or raise "
        "MESHWRIGHT_MAX_BODY_BYTES on the server"
    )


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"numbers must be finite, found {text[:40]}")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"numbers must be finite, found {name}")
