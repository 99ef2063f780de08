"""Methods of clients, made of exchanges: one description for those that block and those that await.

class Endpoints:
    get_plan = Endpoint(plans.get_plan)    # Client: -> Plan; AsyncClient: -> Awaitable[Plan]
    plans = Listing(plans.plans)           # Client: -> Iterator; AsyncClient: -> AsyncIterator
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from typing_extensions import ParamSpec, Self

from meshwright.client.exchange import Exchange, got

P = ParamSpec("P")
R = TypeVar("R")
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shelf:
    """A list of the service, which it gives in pages."""

    path: str
    filters: dict[str, Any] = field(default_factory=dict)

    def page(self, token: str | None) -> Exchange[tuple[list[Entry], str | None]]:
        """Entries, and the token of the next page."""
        found = yield from got(f"/v1/{self.path}", **self.filters, page_token=token)
        return found[self.path.rpartition("/")[2].replace("-", "_")], found.get(
            "next_page_token"
        ) or None


class Blocking(ABC):
    """Carries exchanges out in the caller's thread."""

    @abstractmethod
    def carry_out(self, exchange: Exchange[R]) -> R:
        """What the exchange returns."""

    def entries(self, shelf: Shelf) -> Iterator[Entry]:
        """All entries of a list."""
        token: str | None = None
        while True:
            found, token = self.carry_out(shelf.page(token))
            yield from found
            if token is None:
                return


class Awaiting(ABC):
    """Carries exchanges out on an event loop."""

    @abstractmethod
    async def carry_out(self, exchange: Exchange[R]) -> R:
        """What the exchange returns."""

    async def entries(self, shelf: Shelf) -> AsyncIterator[Entry]:
        """All entries of a list."""
        token: str | None = None
        while True:
            found, token = await self.carry_out(shelf.page(token))
            for entry in found:
                yield entry
            if token is None:
                return


class Endpoint(Generic[P, R]):
    """A method that carries out the exchange of a function."""

    def __init__(self, function: Callable[P, Exchange[R]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, client: Blocking | Awaiting | None, owner: type) -> object:
        if client is None:
            return self

        @functools.wraps(self.function)
        def method(*given: P.args, **named: P.kwargs) -> R | Awaitable[R]:
            return client.carry_out(self.function(*given, **named))

        return method


class Listing(Generic[P]):
    """A method that gives the entries of the shelf that a function names, page after page."""

    def __init__(self, function: Callable[P, Shelf]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[Entry]]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, AsyncIterator[Entry]]: ...
    def __get__(self, client: Blocking | Awaiting | None, owner: type) -> object:
        if client is None:
            return self

        @functools.wraps(self.function)
        def method(*given: P.args, **named: P.kwargs) -> Iterator[Entry] | AsyncIterator[Entry]:
            return client.entries(self.function(*given, **named))

        return method
