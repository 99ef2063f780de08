"""Who refers to documents and who deletes them, kept apart.

Who refers to documents says so first, in common with others; who deletes does it alone: between
asking whether anybody refers to something and deleting it nobody begins to. On SQLite there is one
writer at a time anyway.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

REFERRING = func.hashtextextended("what refers to documents", 0)


def referring(connection: Connection) -> None:
    """From here to the end of a writing transaction no document is deleted. Take no row before it:
    who deletes takes rows behind it."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock_shared(REFERRING)))


def deleting(connection: Connection) -> None:
    """From here to the end of the transaction nobody begins to refer to a document."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(REFERRING)))
