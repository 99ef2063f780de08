"""The database: one engine, its clock, and transactions that say whether they write.

SQLite has one writer at a time, on one machine. On PostgreSQL writers run side by side: who must
not meet another one, first takes what they would meet about (`alone`).
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
# chosen: a server that does not answer is found out before a lease has run out
POSTGRESQL = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "options": "-c lock_timeout=10s -c statement_timeout=60s "
    "-c idle_in_transaction_session_timeout=60s",
}


SERVICE = "meshwright"  # the application that PostgreSQL lists
NEWS = "meshwright_news"  # of a connection: what to say once its transaction is


def tell(connection: Connection, news: Any) -> None:
    """Have those who listen to the database hear this, if and when the transaction commits."""
    later = connection.get_execution_options().get(NEWS)
    if later is not None:
        later.append(news)


AWAY = (OperationalError, InterfaceError)  # of a database that may be back in a moment


class OldSchema(Exception):
    """The database has another schema than this program, and others may use it."""


class Database:
    """Transactions on one database. Safe to share between threads.

    `now` is the clock of leases and creation times: the database's own, in seconds since 1970.
    application: the name of its connections in pg_stat_activity.
    kind_of: the file system of a folder. ValueError of a SQLite store that is not on a local one.
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
        self.write_failure: str | None = None  # of the last transaction that was to write
        self._listeners: tuple[Callable[[Any], None], ...] = ()
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
        for one in news:
            for listener in self._listeners:
                listener(one)

    @property
    def file(self) -> Path | None:
        """Of a SQLite store in a file; None of any other."""
        path = self.engine.url.database
        if self.dialect != "sqlite" or not path or path == ":memory:" or path.startswith("file:"):
            return None
        return Path(path)

    def free_bytes(self) -> int | None:
        """On the disk of a SQLite store in a file; None of any other."""
        return None if self.file is None else shutil.disk_usage(self.file.parent).free

    def listen(self, listener: Callable[[Any], None]) -> None:
        """Call this with what committed transactions of this process have told."""
        self._listeners += (listener,)

    def alone(self, connection: Connection, about: str) -> None:
        """From here to the end of a writing transaction nobody else is alone about the same."""
        if self.dialect == "postgresql":
            key = func.hashtextextended(about, 0)
            connection.execute(select(func.pg_advisory_xact_lock(key)))

    def open(self) -> None:
        """Make sure of the newest schema, and of the modes of files.

        Raises OldSchema where that is for somebody to decide.
        """
        if self.dialect == "sqlite":
            self.upgrade()
            if self.file is not None:  # last: it is a store by now, not a file of another program
                file_modes.tighten(self.file)
        elif not self.is_current():
            raise OldSchema(
                "it has another schema than this program; with no other version at work, run "
                "meshwright-server db upgrade"
            )

    def upgrade(self) -> None:
        """Bring the schema to the newest revision, in one transaction; the second comer waits."""
        with _migrations() as config, self.writing() as connection:
            self.alone(connection, "schema")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def service_connections(self) -> int:
        """How many connections processes of the service have to PostgreSQL; 0 of SQLite.

        Connections of this process, and those whose URL names another application, do not count.
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
        """The schema's revision; None of an empty database."""
        with self.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def is_current(self) -> bool:
        """Whether the schema is at the newest revision."""
        return self.revision() == self.newest()

    def newest(self) -> str | None:
        """The revision that this program needs."""
        with _migrations() as config:
            return ScriptDirectory.from_config(config).get_current_head()

    def close(self) -> None:
        """Close all connections; those that a thread still has, once it gives them back."""
        self._is_closed = True
        self.engine.dispose()

    def _checked_in(self, _: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
        """A disposed engine forgets the connections that are in use, and leaves them open."""
        if self._is_closed:
            entry.invalidate()


def _check_local(folder: Path, kind: str) -> None:
    if is_network(kind):
        raise ValueError(
            f"{folder} is on a network file system ({kind}), where SQLite loses data; take a "
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
    """An engine that notices connections which the server has closed meanwhile."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise ValueError(
            "PostgreSQL needs a driver: pip install 'meshwright-server[postgresql]'"
        ) from None
    given = {**POSTGRESQL, "application_name": application}
    arguments = {name: value for name, value in given.items() if name not in url.query}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args=arguments,
        pool_pre_ping=True,
        pool_size=8,
        max_overflow=32,  # chosen: as many as Starlette's threads, 40
    )


def _prepare_sqlite(engine: Engine, file: Path | None) -> None:
    @event.listens_for(engine, "do_connect")
    def _connecting(*_: object) -> None:
        if file is not None:
            file_modes.create_file(file)

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
