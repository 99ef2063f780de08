"""Backup and restore of a store.

A SQLite store is copied while the service runs and restored while no process uses it. A copy is one
file, written atomically and checked. Jobs that ran when the copy was taken are queued again on
restore. PostgreSQL's own programs dump and restore a PostgreSQL store; `requeue` then queues the
jobs that ran.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, make_url, select, text, update

from meshwright_service.jobs import events
from meshwright_service.store import file_modes
from meshwright_service.store.database import Database
from meshwright_service.store.tables import JobRow


class CannotCopy(ValueError):
    """The store, or the copy of one, does not permit the backup or the restore."""


def back_up(url: str, file: Path) -> None:
    """Copy the store into a file; a complete copy replaces an older file atomically."""
    source = _file_of(url)
    if not source.is_file():
        raise CannotCopy("there is no store yet")
    with _atomic_replacement(file) as copy:
        with closing(_connect_read_only(source)) as of, closing(sqlite3.connect(copy)) as to:
            of.backup(to)  # in one step: a consistent snapshot beside concurrent writers
            to.execute("PRAGMA journal_mode=DELETE")  # a single file, without a write-ahead log
        _check(copy)


def restore(url: str, file: Path, *, replace: bool) -> int:
    """Replace the store by a copy, upgraded to the current schema; return the requeued job count.

    Raises CannotCopy for an existing store, unless `replace` is set and no process uses it.
    """
    target = _file_of(url)
    if not file.is_file():
        raise CannotCopy(f"there is no file {file}")
    _check(file)
    file_modes.create_folder(target.parent)
    if target.exists() and not replace:
        raise CannotCopy("there is a store already. Use --replace to delete it")
    with _atomic_replacement(target) as copy:
        copy.write_bytes(file.read_bytes())
        database = Database(f"sqlite:///{copy}")
        try:
            if database.revision() is None:
                raise CannotCopy(f"{file} is not a copy of a store")
            database.upgrade()
            with database.writing() as connection:
                count = _queue_again(connection, database)
        finally:
            database.close()
        with closing(sqlite3.connect(copy)) as to:
            to.execute("PRAGMA journal_mode=DELETE")
        _check(copy)
        if target.exists():  # last: an invalid copy must not touch the store
            _check_unused(target)
    return count


def requeue(database: Database) -> int:
    """Queue again the jobs that ran when the restored dump was made; return their count.

    Raises CannotCopy while another process uses the database.
    """
    if database.dialect != "postgresql":
        raise CannotCopy("the store is SQLite; db restore requeues its jobs")
    others = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with database.writing() as connection:
        if connection.execute(others).scalar_one():
            raise CannotCopy("it is in use. End the service first")
        return _queue_again(connection, database)


def _queue_again(connection: Connection, database: Database) -> int:
    running = select(JobRow.id, JobRow.attempt).where(JobRow.state == "running")
    jobs = connection.execute(running).all()
    connection.execute(update(JobRow).values(lease_until=None))
    connection.execute(update(JobRow).where(JobRow.state == "running").values(state="queued"))
    for job in jobs:
        events.note(connection, job.id, job.attempt, {"state": "queued"}, now=database.now)
    return len(jobs)


def _file_of(url: str) -> Path:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise CannotCopy(
            "the store is not SQLite. Use pg_dump and pg_restore for PostgreSQL "
            "(docs/how-to/operations.md)"
        )
    return Path(parsed.database)


def _connect_read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=10)


def _check(file: Path) -> None:
    """Raise CannotCopy unless the pages and the foreign keys of a SQLite file are intact."""
    try:
        with closing(_connect_read_only(file)) as connection:
            reports = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            violation = connection.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.DatabaseError as failure:
        raise CannotCopy(f"{file} is damaged: {failure}") from None
    if reports != ["ok"] or violation:
        raise CannotCopy(f"{file} is damaged: {reports[0] if reports != ['ok'] else violation}")


def _check_unused(store: Path) -> None:
    """Raise CannotCopy if a process has the store open; merge its write-ahead log."""
    with closing(sqlite3.connect(store, timeout=0)) as connection:
        try:
            connection.execute("PRAGMA journal_mode=DELETE")  # needs exclusive access
        except sqlite3.OperationalError:
            raise CannotCopy("it is in use. End the service first") from None
        except sqlite3.DatabaseError:
            return  # a damaged store may be replaced


@contextmanager
def _atomic_replacement(file: Path) -> Iterator[Path]:
    """A new file, readable by its owner only, that replaces `file` when the block succeeds."""
    with tempfile.TemporaryDirectory(prefix=".meshwright-", dir=file.absolute().parent) as folder:
        copy = Path(folder) / file.name
        copy.touch(mode=0o600)
        yield copy
        with copy.open("rb") as written:
            os.fsync(written.fileno())
        copy.replace(file)
        for log in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file.with_name(file.name + log).unlink()
