"""What is worked out from a document, kept beside it: documents never change, so neither does this.

A name says what it is and in which version: a service that works it out in another way gives it
another name. It is no document: it can be made again at any time, goes with its document, and is
read only for a tenant of whom the caller knows that it has the document.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from service.database import Database
from service.inserting import insert_new
from service.packing import unpack
from service.references import referring
from service.stored import Parts
from service.tables import DerivedRow, DocumentRow

log = logging.getLogger(__name__)


def put(connection: Connection, document: str, name: str, parts: Parts) -> None:
    """Keep packed parts of a document that is stored."""
    for number, body in parts.items():
        insert_new(connection, DerivedRow, document=document, name=name, part=number, body=body)


def keep(database: Database, document: str, name: str, parts: Parts) -> None:
    """The same in a transaction of its own, if that is possible: an answer needs none of it."""
    try:
        with database.writing() as connection:
            referring(connection)
            there = select(DocumentRow.id).where(DocumentRow.id == document)
            if connection.execute(there).first() is not None:
                put(connection, document, name, parts)
    except DBAPIError as failure:
        log.warning("%s of %s could not be kept: %s", name, document, failure.orig)


def read(
    connection: Connection, document: str, name: str, numbers: Iterable[int]
) -> dict[int, bytes]:
    """Those of the parts that are there."""
    rows = connection.execute(
        select(DerivedRow.part, DerivedRow.body).where(
            DerivedRow.document == document,
            DerivedRow.name == name,
            DerivedRow.part.in_(list(numbers)),
        )
    )
    return {number: unpack(body) for number, body in rows}
