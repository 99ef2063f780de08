"""Document locks: separate transactions that refer to documents from those that delete them.

A transaction that refers to documents takes a shared advisory lock, one that deletes them an
exclusive lock. So no reference appears between the check for references and the deletion. SQLite
needs no lock, because it serializes writers.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

REFERRING = func.hashtextextended("what refers to documents", 0)


def referring(connection: Connection) -> None:
    """Take the shared lock until the end of a writing transaction.

    Take it before any row lock: a deletion locks rows after its own lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock_shared(REFERRING)))


def deleting(connection: Connection) -> None:
    """Take the exclusive lock until the end of the transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(REFERRING)))
