"""What both clients know of the service that they speak to."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx

from meshwright.client.api_key import api_key, authorization, checked_key
from meshwright.client.exchange import ApiCall, Stream
from meshwright.client.retry import CallRetries
from meshwright.schema import Unavailable

TIMEOUT_S = 60.0  # for one answer; chosen: above every wait that is asked for
PATIENCE_S = 60.0  # chosen: a service that is brought up to date is back by then
SILENT_S = 30.0  # of a stream; chosen: twice what the service lets pass between signs of life


@dataclass(frozen=True, slots=True)
class Sent:
    """A request, as httpx takes it."""

    method: str
    path: str
    content: bytes | None
    params: dict[str, Any] | None
    headers: dict[str, str]


class ServiceConnection:
    """The address, the key and the patience of a client; whether the service ever answered."""

    def __init__(self, url: str, key: str | None, patience_s: float) -> None:
        self.url = url.rstrip("/")
        secret = api_key() if key is None else checked_key(key, "key")
        self.headers = {} if secret is None else authorization(secret)
        self.is_known = False
        self._patience_s = patience_s
        self._random = Random()  # noqa: S311  pauses are no secret
        try:
            httpx.URL(self.url)
        except httpx.InvalidURL as failure:
            raise Unavailable(f"{url!r} is not a URL: {failure}") from None

    def tries(self, call: ApiCall) -> CallRetries:
        """Of a call that is about to be sent."""
        return CallRetries(call, self._patience_s, self._random)

    def of_call(self, call: ApiCall) -> Sent:
        """A call as all its tries send it: under one Idempotency-Key."""
        content, headers = call.content()
        if call.again == "keyed":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        return Sent(call.method, call.path, content, call.params() or None, headers)

    def of_stream(self, stream: Stream) -> Sent:
        """A stream as it is asked for."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", **stream.headers}
        return Sent("GET", stream.path, None, None, headers)

    def settled(self, outcome: httpx.Response | httpx.TransportError) -> httpx.Response:
        """An answer; Unavailable where none came."""
        if isinstance(outcome, httpx.Response):
            return outcome
        if isinstance(outcome, httpx.UnsupportedProtocol):
            raise Unavailable(
                f"{self.url!r} is not the URL of a service; give one such as http://127.0.0.1:8780"
            ) from None
        raise Unavailable(
            f"no answer from {self.url}: {outcome or type(outcome).__name__}; is the service "
            "running there?"
        ) from None
