"""Insertion of a row unless its key exists, safe under concurrency."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, literal
from sqlalchemy.dialects import postgresql, sqlite

from meshwright_service.store.tables import Base


def insert_new(connection: Connection, table: type[Base], **values: Any) -> bool:
    """Insert a row unless its key exists; False if it does.

    On PostgreSQL it waits for a concurrent transaction that inserts the same key.
    """
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values(**values).on_conflict_do_nothing().returning(literal(1))
    return connection.execute(statement).first() is not None
