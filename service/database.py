"""The database: one engine, its clock, and transactions that say whether they write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Float,
    create_engine,
    event,
    literal_column,
    make_url,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

# `unixepoch('now','subsec')` is NULL before SQLite 3.42
CLOCKS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "extract(epoch from clock_timestamp())",
}


class Database:
    """Transactions on one database. Safe to share between threads.

    `now` is the clock of leases and creation times: the database's own, in seconds since 1970.
    """

    def __init__(self, url: str, *, now: ColumnElement[float] | None = None) -> None:
        parsed = make_url(url)
        self.dialect = parsed.get_backend_name()
        if self.dialect not in CLOCKS:
            raise ValueError(f"database {self.dialect!r} is not supported; use sqlite")
        if self.dialect == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        self.engine = create_engine(parsed)
        if self.dialect == "sqlite":
            _prepare_sqlite(self.engine)
        self.now: ColumnElement[float] = (
            literal_column(CLOCKS[self.dialect], Float()) if now is None else now
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that changes nothing."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; on SQLite it waits for its turn before it reads."""
        with (
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    def upgrade(self) -> None:
        """Bring the schema to the newest revision, in one transaction; the second comer waits."""
        with _migrations() as config, self.writing() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def is_current(self) -> bool:
        """Whether the schema is at the newest revision."""
        with _migrations() as config, self.engine.connect() as connection:
            heads = ScriptDirectory.from_config(config).get_heads()
            return set(MigrationContext.configure(connection).get_current_heads()) == set(heads)

    def close(self) -> None:
        self.engine.dispose()


def open_store(url: str) -> None:
    """Bring the database to the newest schema, or raise what stands against it."""
    database = Database(url)
    try:
        database.upgrade()
    finally:
        database.close()


@contextmanager
def _migrations() -> Iterator[Config]:
    with as_file(files("service") / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        yield config


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        raw: Any = connection
        raw.isolation_level = None  # BEGIN is ours: the driver would delay it to the first write
        for pragma in (
            "busy_timeout=10000",  # first: the next one may have to wait already
            "journal_mode=WAL",
            "synchronous=NORMAL",  # in WAL mode a power cut may lose the last commits, tears none
            "foreign_keys=ON",
        ):
            raw.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
