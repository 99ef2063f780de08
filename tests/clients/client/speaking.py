"""Both clients over a transport that answers as told, asked in one way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx

from meshwright.client import AsyncClient, Client

Given = httpx.Response | Exception
EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body whose connection is lost behind these bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx.ReadError("gone")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Speaking:
    """A client whose service gives these answers in turn.

    asked: what it was asked. pauses: between tries.
    """

    def __init__(self, *answers: Given, awaits: bool, **more: Any) -> None:
        self.asked: list[httpx.Request] = []
        self.pauses: list[float] = []
        self._left = list(answers)
        self._awaits = awaits
        transport = httpx.MockTransport(self._answer)
        if awaits:
            self._client: AsyncClient | Client = AsyncClient(
                "http://service/", transport=transport, sleep=self._sleep, **more
            )
        else:
            self._client = Client(
                "http://service/", transport=transport, sleep=self.pauses.append, **more
            )

    def __call__(self, name: str, *given: Any, **named: Any) -> Any:
        """What a method of the client gives."""
        method: Callable[..., Any] = getattr(self._client, name)
        if not self._awaits:
            return method(*given, **named)

        async def awaited() -> Any:
            found: Awaitable[Any] = method(*given, **named)
            return await found

        return asyncio.run(awaited())

    def listed(self, name: str, **named: Any) -> list[Any]:
        """What a list of the client has."""
        method: Callable[..., Any] = getattr(self._client, name)
        if not self._awaits:
            return list(method(**named))

        async def all_of_it() -> list[Any]:
            return [entry async for entry in method(**named)]

        return asyncio.run(all_of_it())

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        given = self._left.pop(0)
        if isinstance(given, Exception):
            raise given
        if isinstance(given.stream, Broken):
            return given
        return httpx.Response(given.status_code, headers=given.headers, content=given.content)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def problem(slug: str, status: int, **more: str) -> httpx.Response:
    """A problem as services send it; `more` are headers."""
    document = {
        "type": f"urn:meshwright:problem:{slug}", "title": "t", "status": status,
        "detail": f"no: {slug}", "errors": [{"pointer": "/a"}, {"pointer": "/b"}],
    }  # fmt: skip
    return httpx.Response(
        status, json=document, headers={"Content-Type": "application/problem+json", **more}
    )


def events(*texts: str, broken: bool = False) -> httpx.Response:
    """A stream of these events; broken: its connection is lost behind them."""
    content = "".join(f"{text}\n\n" for text in texts).encode()
    stream: dict[str, Any] = {"stream": Broken(content)} if broken else {"content": content}
    return httpx.Response(200, headers=EVENTS, **stream)


def progress(id_: int, phase: str) -> str:
    """An event of progress."""
    said = f'{{"attempt":1,"progress":{{"phase":"{phase}","done":1,"total":2}}}}'
    return f"event: progress\nid: {id_}\ndata: {said}"
