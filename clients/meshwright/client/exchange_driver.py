"""An exchange under way, step by step, whoever carries it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

import httpx

from meshwright.client.exchange import ApiCall, Exchange, Stream
from meshwright.schema import Unavailable

R = TypeVar("R")


class ExchangeDriver(Generic[R]):
    """asked: what it waits for; None once it has returned."""

    asked: ApiCall | Stream | None

    def __init__(self, exchange: Exchange[R]) -> None:
        self._exchange = exchange
        self._returned: R | None = None
        self._step(lambda: next(exchange))

    @property
    def returned(self) -> R:
        """What the exchange returned, once nothing more is asked."""
        assert self.asked is None
        return cast(R, self._returned)

    def answer(self, answer: httpx.Response) -> None:
        """Go on with an answer to what is asked."""
        self._step(lambda: self._exchange.send(answer))

    def fail(self, failure: Unavailable) -> None:
        """Go on without one."""
        self._step(lambda: self._exchange.throw(failure))

    def _step(self, step: Callable[[], ApiCall | Stream]) -> None:
        try:
            self.asked = step()
        except StopIteration as end:
            self.asked, self._returned = None, end.value
