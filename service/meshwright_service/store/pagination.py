"""Keyset pagination on (created, id), newest first, or on another key and the id (AIP-158)."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query
from sqlalchemy import ColumnElement, Connection, Select, and_, or_
from sqlalchemy.orm import InstrumentedAttribute

from meshwright_service.common.errors import ParameterError

T = TypeVar("T")
MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page size and the position after which the page starts."""

    size: int = 50
    after: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """An order of a list. key: a number that is never NULL."""

    key: ColumnElement[float]
    is_descending: bool


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list; `next_token` is None on the last page."""

    items: tuple[T, ...]
    next_token: str | None


async def page_request(
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    page_token: Annotated[str | None, Query(max_length=400)] = None,
) -> PageRequest:
    """The page request of the query parameters."""
    return PageRequest(page_size, _place(page_token) if page_token else None)


Paging = Annotated[PageRequest, Depends(page_request)]


def read_page(
    connection: Connection,
    statement: Select[Any],
    created: InstrumentedAttribute[float],
    id_: InstrumentedAttribute[str],
    page: PageRequest,
    order: Order | None = None,
) -> tuple[Sequence[Any], str | None]:
    """The rows of one page and the token of the next. order: None for the newest first."""
    if order is None:
        key: ColumnElement[float] = created.expression
        is_descending = True
    else:
        key, is_descending = order.key, order.is_descending
        statement = statement.add_columns(key.label("page_key"))
    if page.after is not None:
        statement = statement.where(_after(key, id_, page.after, is_descending=is_descending))
    columns = (key.desc(), id_.desc()) if is_descending else (key.asc(), id_.asc())
    rows = connection.execute(statement.order_by(*columns).limit(page.size + 1)).all()
    if len(rows) <= page.size:
        return rows, None
    last = rows[page.size - 1]
    place = last.created if order is None else last.page_key
    return rows[: page.size], _token(place, last.id)


def page_of(items: Sequence[T], page: PageRequest) -> Page[T]:
    """A page of a constant list, in the order of the list."""
    start = 0 if page.after is None else max(0, int(page.after[0]))
    end = start + page.size
    token = _token(end, "") if end < len(items) else None
    return Page(tuple(items[start:end]), token)


def _after(
    key: ColumnElement[float],
    id_: InstrumentedAttribute[str],
    place: tuple[float, str],
    *,
    is_descending: bool,
) -> ColumnElement[bool]:
    value, last = place
    if is_descending:
        return or_(key < value, and_(key == value, id_ < last))
    return or_(key > value, and_(key == value, id_ > last))


def _token(created: float, id_: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([created, id_]).encode()).decode().rstrip("=")


def _place(token: str) -> tuple[float, str]:
    try:
        created, id_ = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if isinstance(created, (int, float)) and isinstance(id_, str) and id_.isprintable():
            place = float(created)
            if math.isfinite(place):
                return place, id_
    except (binascii.Error, ValueError, TypeError, RecursionError, OverflowError):
        pass
    raise ParameterError(
        f"page_token {token[:40]!r} is not valid. Use the next_page_token of an answer"
    )
