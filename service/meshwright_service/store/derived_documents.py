"""Derived documents: results computed from an immutable document and stored beside it.

The name states the content and its version; another computation needs another name. A derived
document can be computed again, and is deleted with the tenant's holding of the document.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from meshwright_service.common.tenant import Tenant
from meshwright_service.common.zstd import unpack
from meshwright_service.store.database import Database
from meshwright_service.store.document_locks import referring
from meshwright_service.store.encoded_documents import Parts
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.tables import DerivedRow, HoldingRow

log = logging.getLogger(__name__)


def put(connection: Connection, tenant: Tenant, document: str, name: str, parts: Parts) -> None:
    """Store compressed parts for a document of a tenant."""
    row = {"tenant": tenant, "document": document, "name": name}
    for number, body in parts.items():
        insert_new(connection, DerivedRow, **row, part=number, body=body)


def keep(database: Database, tenant: Tenant, document: str, name: str, parts: Parts) -> None:
    """Store parts in a separate transaction; a database error is only logged."""
    try:
        with database.writing() as connection:
            referring(connection)
            held = (HoldingRow.tenant == tenant, HoldingRow.id == document)
            if connection.execute(select(HoldingRow.id).where(*held)).first() is not None:
                put(connection, tenant, document, name, parts)
    except DBAPIError as failure:
        log.warning("%s of %s could not be kept: %s", name, document, failure.orig)


def read(
    connection: Connection, tenant: Tenant, document: str, name: str, numbers: Iterable[int]
) -> dict[int, bytes]:
    """The stored parts with these numbers, decompressed, by number."""
    rows = connection.execute(
        select(DerivedRow.part, DerivedRow.body).where(
            DerivedRow.tenant == tenant,
            DerivedRow.document == document,
            DerivedRow.name == name,
            DerivedRow.part.in_(list(numbers)),
        )
    )
    return {number: unpack(body) for number, body in rows}
