"""The client that blocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import httpx
from typing_extensions import Self

from meshwright.client.connection import PATIENCE_S, SILENT_S, TIMEOUT_S, ServiceConnection
from meshwright.client.exchange import ApiCall, Exchange, Stream, is_stream
from meshwright.client.exchange_driver import ExchangeDriver
from meshwright.client.method_descriptor import Blocking
from meshwright.client.methods import Endpoints
from meshwright.schema import Unavailable

R = TypeVar("R")


class Client(Endpoints, Blocking):
    """Talks to one service. Use it from one thread; close it, or use it in a `with`.

    key: an API key, where the service asks for one; by default that of the environment
    (meshwright.client.api_key). timeout_s: for one answer. patience_s: how long in all a call waits
    between tries for a service that is away or whose queue is full; one that never answered is
    given two seconds.
    Raises what the service answers as the errors of meshwright.schema, and Unavailable where no
    answer comes.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = ServiceConnection(url, key, patience_s)
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self._service.url,
            headers=self._service.headers,
            timeout=timeout_s,
            transport=transport,
            follow_redirects=False,
        )

    @property
    def url(self) -> str:
        return self._service.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def carry_out(self, exchange: Exchange[R]) -> R:
        """What an exchange returns, once the service has answered all that it asks."""
        course = ExchangeDriver(exchange)
        while course.asked is not None:
            try:
                answer = self._answer(course.asked)
            except Unavailable as failure:
                course.fail(failure)
            else:
                course.answer(answer)
        return course.returned

    def _answer(self, asked: ApiCall | Stream) -> httpx.Response:
        if isinstance(asked, Stream):
            return self._streamed(asked)
        sent, tries = self._service.of_call(asked), self._service.tries(asked)
        outcome: httpx.Response | httpx.TransportError
        while True:
            try:
                outcome = self._http.request(
                    sent.method, sent.path, content=sent.content, params=sent.params,
                    headers=sent.headers,
                )  # fmt: skip
                self._service.is_known = True
            except httpx.TransportError as failure:
                outcome = failure
            pause_s = tries.pause_s(outcome, is_known=self._service.is_known)
            if pause_s is None:
                return self._service.settled(outcome)
            self._sleep(pause_s)

    def _streamed(self, asked: Stream) -> httpx.Response:
        sent = self._service.of_stream(asked)
        try:
            with self._http.stream(
                sent.method, sent.path, headers=sent.headers, timeout=SILENT_S
            ) as response:
                if not is_stream(response):
                    response.read()
                    return response
                for line in response.iter_lines():
                    if asked.hear(line):
                        break
                return response
        except httpx.TransportError as failure:
            return self._service.settled(failure)
