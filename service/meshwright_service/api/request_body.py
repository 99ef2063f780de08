"""Request bodies: JSON, plain or compressed, in bounded memory.

The event loop receives a body and counts its bytes (`RawBody`). The weight of the body decides when
it may be read (`meshwright_service.api.body_memory`). The thread of the endpoint decodes and parses
it (`Body`).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from meshwright.schema.canonical import MAX_NESTING, read_object
from meshwright_service.api.body_memory import BodyMemory
from meshwright_service.api.body_weight import body_weight
from meshwright_service.api.request_limits import Limits
from meshwright_service.api.state import state_of
from meshwright_service.auth.principals import Principal
from meshwright_service.common.content_encodings import (
    Bytes,
    check_encoding,
    decoded_pieces,
    is_compressed,
)
from meshwright_service.common.errors import DamagedBody, NotJson, SlowBody, WrongContentType
from meshwright_service.common.settings import Settings
from meshwright_service.common.tenant import Tenant

PACE_S = 10.0  # chosen: a client may pause for less
SHORT = 1 << 17  # bytes; chosen: weighed in 0.1 ms, about the cost of a thread switch


@dataclass(frozen=True, slots=True)
class Body:
    """A body that may be read, while memory for it is reserved."""

    data: Bytes
    encoding: str
    limits: Limits

    def json(self) -> dict[str, Any]:
        """The JSON object of the body; raises TooLarge, DamagedBody or NotJson."""
        try:
            value = json.loads(
                self.text().decode(),
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

    def text(self) -> bytes:
        """The decoded bytes of the body; raises TooLarge or DamagedBody."""
        if not is_compressed(self.encoding):
            return bytes(self.data)
        return b"".join(decoded_pieces(self.encoding, self.data))


@dataclass(slots=True)
class RawBody:
    """A body as sent; its bytes count in the budget until `release`."""

    data: Bytes
    encoding: str
    limits: Limits
    tenant: Tenant
    memory: BodyMemory

    @asynccontextmanager
    async def reading(self, request: Request) -> AsyncIterator[Body]:
        """The body with reserved memory to read it; raises TooLarge, DamagedBody or Busy."""
        weight = await self._weight()
        async with self.memory.reading(self.tenant, weight):
            if await request.is_disconnected():  # possible after a wait for a turn
                raise _disconnected()
            yield Body(self.data, self.encoding, self.limits)

    def release(self) -> None:
        """Drop the bytes of the body and return them to the budget."""
        self.memory.shares.give(self.tenant, len(self.data))
        self.data = b""

    async def _weight(self) -> int:
        if len(self.data) <= SHORT and not is_compressed(self.encoding):
            return body_weight(self.encoding, self.data, self.limits)
        async with self.memory.weighing(self.tenant):
            return await run_in_threadpool(body_weight, self.encoding, self.data, self.limits)


async def receive_body(request: Request) -> AsyncIterator[RawBody]:
    """A dependency: the JSON body of a request, after all of it has arrived."""
    async with _raw_body(request, Limits.of(state_of(request).settings)) as body:
        yield body


async def receive_cost_graph(request: Request) -> AsyncIterator[RawBody]:
    """A dependency: the body of a request with a cost graph, after all of it has arrived."""
    settings = state_of(request).settings
    async with _raw_body(request, Limits.of(settings).of_cost_graph(settings)) as body:
        yield body


@asynccontextmanager
async def _raw_body(request: Request, limits: Limits) -> AsyncIterator[RawBody]:
    _check_type(request.headers.get("content-type", ""))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    check_encoding(encoding)
    service = state_of(request)
    tenant = cast(Principal, request.state.principal).tenant
    data = bytearray()
    body = RawBody(data, encoding, limits, tenant, service.bodies)
    try:
        await _receive(request, body, data, service.settings)
        yield body
    finally:
        body.release()


async def read_body(
    request: Request, raw: Annotated[RawBody, Depends(receive_body, scope="function")]
) -> AsyncIterator[Body]:
    """A dependency: the body, with reserved memory until the endpoint returns."""
    async with raw.reading(request) as body:
        yield body


# scope "function": a client that reads its response slowly must not hold a turn
ArrivedBody = Annotated[RawBody, Depends(receive_body, scope="function")]
ArrivedCostGraph = Annotated[RawBody, Depends(receive_cost_graph, scope="function")]
JsonBody = Annotated[Body, Depends(read_body, scope="function")]


async def _receive(request: Request, body: RawBody, data: bytearray, settings: Settings) -> None:
    now = asyncio.get_running_loop().time
    end = now() + settings.body_s
    least = round(settings.body_bytes_per_s * PACE_S)
    missing = least
    try:
        async with asyncio.timeout_at(min(end, now() + PACE_S) if least else end) as pace:
            async for piece in request.stream():
                body.limits.check_bytes(len(data) + len(piece))
                body.memory.shares.take(body.tenant, len(piece))
                data += piece
                missing -= len(piece)
                if missing <= 0 < least:
                    missing = least
                    pace.reschedule(min(end, now() + PACE_S))
    except ClientDisconnect:
        raise _disconnected() from None
    except TimeoutError:
        if now() < end:
            raise SlowBody(
                f"the body arrives slower than {settings.body_bytes_per_s:,} bytes/s; compress "
                "it, or lower MESHWRIGHT_BODY_BYTES_PER_S on the server"
            ) from None
        raise SlowBody(
            f"the body did not arrive within {settings.body_s:g} s; compress it, or raise "
            "MESHWRIGHT_BODY_S on the server"
        ) from None


def _disconnected() -> DamagedBody:
    # an error that is not logged with a trace; no client reads the response
    return DamagedBody("the connection was closed before the end of the body")


def _check_type(content_type: str) -> None:
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        raise WrongContentType(
            f"the body must be application/json, got {media or 'no content type'!r}; with curl: "
            "-H 'Content-Type: application/json'"
        )


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"numbers must be finite, found {text[:40]}")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"numbers must be finite, found {name}")
