"""The database: one engine, its clock, and transactions for reading or writing.

SQLite serializes writers. On PostgreSQL writers run concurrently; `alone` takes an advisory lock
where they must not.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Float,
    create_engine,
    event,
    func,
    literal_column,
    make_url,
    select,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from meshwright_service.common.filesystems import is_network, kind_of
from meshwright_service.store import file_modes

# `unixepoch('now','subsec')` is NULL before SQLite 3.42
CLOCKS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "extract(epoch from clock_timestamp())",
}
# chosen: a dead server is detected before a lease expires
POSTGRESQL = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "options": "-c lock_timeout=10s -c statement_timeout=60s "
    "-c idle_in_transaction_session_timeout=60s",
}


SERVICE = "meshwright"  # application_name of connections to PostgreSQL
NEWS = "meshwright_news"  # execution option: the list of messages to send after the commit


def tell(connection: Connection, news: Any) -> None:
    """Send a message to the listeners of the database when the transaction commits."""
    later = connection.get_execution_options().get(NEWS)
    if later is not None:
        later.append(news)


AWAY = (OperationalError, InterfaceError)  # errors of a temporarily unavailable database


class OldSchema(Exception):
    """The schema of the database is not that of this version, and other processes may use it."""


class Database:
    """Transactions on one database. Safe to share between threads.

    now: the clock of leases and creation times, by default the database's, in seconds since 1970.
    application: the name of its connections in pg_stat_activity. kind_of: the file system type of
    a folder. Raises ValueError for a SQLite store on a network file system.
    """

    def __init__(
        self,
        url: str,
        *,
        now: ColumnElement[float] | None = None,
        application: str = SERVICE,
        kind_of: Callable[[Path], str] = kind_of,
    ) -> None:
        parsed = make_url(url)
        self.dialect = parsed.get_backend_name()
        if self.dialect not in CLOCKS:
            known = " or ".join(CLOCKS)
            raise ValueError(f"database {self.dialect!r} is not supported; use {known}")
        if self.dialect == "sqlite":
            if parsed.database:
                folder = Path(parsed.database).parent
                file_modes.create_folder(folder)
                _check_local(folder, kind_of(folder))
            self.engine = create_engine(parsed)
            _prepare_sqlite(self.engine, self.file)
        else:
            self.engine = _postgresql(parsed, application)
        self._is_closed = False
        event.listen(self.engine, "checkin", self._checked_in)
        self.write_failure: str | None = None  # of the last writing transaction
        self._listeners: tuple[Callable[[Any], None], ...] = ()
        self.now: ColumnElement[float] = (
            literal_column(CLOCKS[self.dialect], Float()) if now is None else now
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A writing transaction; on SQLite it takes the write lock before its first read."""
        news: list[Any] = []
        options: dict[str, Any] = {"writes": True, NEWS: news}
        try:
            with (
                self.engine.connect().execution_options(**options) as connection,
                connection.begin(),
            ):
                yield connection
        except AWAY as failure:
            self.write_failure = str(failure.orig).partition("\n")[0]
            raise
        self.write_failure = None
        for message in news:
            for listener in self._listeners:
                listener(message)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite store; None for another store."""
        path = self.engine.url.database
        if self.dialect != "sqlite" or not path or path == ":memory:" or path.startswith("file:"):
            return None
        return Path(path)

    def free_bytes(self) -> int | None:
        """Free space on the disk of a SQLite store; None for another store."""
        return None if self.file is None else shutil.disk_usage(self.file.parent).free

    def listen(self, listener: Callable[[Any], None]) -> None:
        """Register a function that receives the messages of this process's transactions."""
        self._listeners += (listener,)

    def alone(self, connection: Connection, about: str) -> None:
        """Take an advisory lock named `about` until the end of a writing transaction."""
        if self.dialect == "postgresql":
            key = func.hashtextextended(about, 0)
            connection.execute(select(func.pg_advisory_xact_lock(key)))

    def open(self) -> None:
        """Upgrade a SQLite store and tighten the modes of its files.

        Raises OldSchema for a PostgreSQL store that needs an upgrade by the operator.
        """
        if self.dialect == "sqlite":
            self.upgrade()
            if self.file is not None:  # last: the file is now known to be a store
                file_modes.tighten(self.file)
        elif not self.is_current():
            raise OldSchema(
                "it has the schema of another version. End all processes of other versions and run "
                "meshwright-server db upgrade"
            )

    def upgrade(self) -> None:
        """Upgrade the schema in one transaction; concurrent upgrades wait."""
        with _migrations() as config, self.writing() as connection:
            self.alone(connection, "schema")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def service_connections(self) -> int:
        """The number of PostgreSQL connections of other service processes; 0 for SQLite.

        Connections whose URL names another application do not count.
        """
        if self.dialect != "postgresql":
            return 0
        others = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = :name AND pid <> pg_backend_pid()"
        )
        with self.reading() as connection:
            return int(connection.execute(others, {"name": SERVICE}).scalar_one())

    def revision(self) -> str | None:
        """The revision of the schema; None for an empty database."""
        with self.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def is_current(self) -> bool:
        """Whether the schema is at the newest revision."""
        return self.revision() == self.newest()

    def newest(self) -> str | None:
        """The schema revision of this version."""
        with _migrations() as config:
            return ScriptDirectory.from_config(config).get_current_head()

    def close(self) -> None:
        """Close all connections; a connection in use closes when it is returned."""
        self._is_closed = True
        self.engine.dispose()

    def _checked_in(self, _: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
        """Close a returned connection: a disposed engine leaves connections in use open."""
        if self._is_closed:
            entry.invalidate()


def _check_local(folder: Path, kind: str) -> None:
    if is_network(kind):
        raise ValueError(
            f"{folder} is on a network file system ({kind}), where SQLite loses data. Use a "
            "folder on a local disk (--data-dir), or PostgreSQL (--database postgresql://…)"
        )


@contextmanager
def _migrations() -> Iterator[Config]:
    with as_file(files("meshwright_service") / "store" / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        yield config


def _postgresql(url: URL, application: str) -> Engine:
    """A PostgreSQL engine that detects closed connections."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise ValueError(
            "PostgreSQL needs a driver: pip install 'meshwright-server[postgresql]'"
        ) from None
    defaults = {**POSTGRESQL, "application_name": application}
    arguments = {name: value for name, value in defaults.items() if name not in url.query}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args=arguments,
        pool_pre_ping=True,
        pool_size=8,
        max_overflow=32,  # chosen: 40 in all, as many as Starlette's threads
    )


def _prepare_sqlite(engine: Engine, file: Path | None) -> None:
    @event.listens_for(engine, "do_connect")
    def _connecting(*_: object) -> None:
        if file is not None:
            file_modes.create_file(file)

    @event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        raw: Any = connection
        raw.isolation_level = None  # explicit BEGIN: the driver delays it to the first write
        for pragma in (
            "busy_timeout=10000",  # first: the next pragma may wait for a lock
            "journal_mode=WAL",
            "synchronous=NORMAL",  # in WAL mode a power cut may lose commits, but corrupts nothing
            "foreign_keys=ON",
        ):
            raw.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
