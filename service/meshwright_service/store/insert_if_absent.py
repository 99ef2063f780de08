"""Rows of which there is one at most, whoever else inserts the same at the same time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, literal
from sqlalchemy.dialects import postgresql, sqlite

from meshwright_service.store.tables import Base


def insert_new(connection: Connection, table: type[Base], **values: Any) -> bool:
    """Insert a row unless one with its key is there; False where it was.

    On PostgreSQL it waits for a transaction that inserts the same, and sees what comes of it.
    """
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table).values(**values).on_conflict_do_nothing().returning(literal(1))
    return connection.execute(statement).first() is not None
