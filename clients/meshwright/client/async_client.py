"""The client that awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

import httpx
from typing_extensions import Self

from meshwright.client.connection import PATIENCE_S, SILENT_S, TIMEOUT_S, ServiceConnection
from meshwright.client.exchange import ApiCall, Exchange, Stream, is_stream
from meshwright.client.exchange_driver import ExchangeDriver
from meshwright.client.method_descriptor import Awaiting
from meshwright.client.methods import Endpoints
from meshwright.schema import Unavailable

R = TypeVar("R")


class AsyncClient(Endpoints, Awaiting):
    """The same as Client, for an event loop: its methods are awaited, its lists `async for`.

    Many tasks of one loop may share it; close it, or use it in an `async with`.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = ServiceConnection(url, key, patience_s)
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=self._service.url,
            headers=self._service.headers,
            timeout=timeout_s,
            transport=transport,
            follow_redirects=False,
        )

    @property
    def url(self) -> str:
        return self._service.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def carry_out(self, exchange: Exchange[R]) -> R:
        """What an exchange returns, once the service has answered all that it asks."""
        course = ExchangeDriver(exchange)
        while course.asked is not None:
            try:
                answer = await self._answer(course.asked)
            except Unavailable as failure:
                course.fail(failure)
            else:
                course.answer(answer)
        return course.returned

    async def _answer(self, asked: ApiCall | Stream) -> httpx.Response:
        if isinstance(asked, Stream):
            return await self._streamed(asked)
        sent, tries = self._service.of_call(asked), self._service.tries(asked)
        outcome: httpx.Response | httpx.TransportError
        while True:
            try:
                outcome = await self._http.request(
                    sent.method, sent.path, content=sent.content, params=sent.params,
                    headers=sent.headers,
                )  # fmt: skip
                self._service.is_known = True
            except httpx.TransportError as failure:
                outcome = failure
            pause_s = tries.pause_s(outcome, is_known=self._service.is_known)
            if pause_s is None:
                return self._service.settled(outcome)
            await self._sleep(pause_s)

    async def _streamed(self, asked: Stream) -> httpx.Response:
        sent = self._service.of_stream(asked)
        try:
            async with self._http.stream(
                sent.method, sent.path, headers=sent.headers, timeout=SILENT_S
            ) as response:
                if not is_stream(response):
                    await response.aread()
                    return response
                async for line in response.aiter_lines():
                    if asked.hear(line):
                        break
                return response
        except httpx.TransportError as failure:
            return self._service.settled(failure)
