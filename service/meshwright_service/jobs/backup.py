"""Copies of a store: of SQLite taken while the service runs, checked, put back while none does.

A copy is one file, whole or not there. What ran when it was taken runs nowhere once it is put back:
those jobs are queued again, as a worker that stops does it. PostgreSQL's own programs dump and
restore; what ran then is queued again when it is said that a dump was restored.
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
    """The store, or the copy of one, is not what it would have to be."""


def back_up(url: str, file: Path) -> None:
    """Copy the store into a file, in place of an older copy once this one is whole."""
    source = _file_of(url)
    if not source.is_file():
        raise CannotCopy("there is no store yet")
    with _instead_of(file) as made:
        with closing(_opened(source)) as of, closing(sqlite3.connect(made)) as to:
            of.backup(to)  # of one moment: in one go, beside whoever writes
            to.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        _check(made)


def restore(url: str, file: Path, *, replace: bool) -> int:
    """Make the store what a copy is, of this program's schema; how many jobs are queued again.

    A store that is there stays unless it is to be replaced, and nobody uses it.
    """
    target = _file_of(url)
    if not file.is_file():
        raise CannotCopy(f"there is no file {file}")
    _check(file)
    file_modes.create_folder(target.parent)
    if target.exists() and not replace:
        raise CannotCopy("there is a store already; --replace loses it")
    with _instead_of(target) as made:
        made.write_bytes(file.read_bytes())
        database = Database(f"sqlite:///{made}")
        try:
            if database.revision() is None:
                raise CannotCopy(f"{file} is no copy of a store")
            database.upgrade()
            with database.writing() as connection:
                count = _queue_again(connection, database)
        finally:
            database.close()
        with closing(sqlite3.connect(made)) as to:
            to.execute("PRAGMA journal_mode=DELETE")
        _check(made)
        if target.exists():  # last: it is not to be touched for a copy that is none
            _check_unused(target)
    return count


def requeue(database: Database) -> int:
    """Queue again what ran when a dump was made that the store is restored from; how many jobs.

    Nobody else may use the database: raises CannotCopy.
    """
    if database.dialect != "postgresql":
        raise CannotCopy("db restore does that for a SQLite store")
    others = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with database.writing() as connection:
        if connection.execute(others).scalar_one():
            raise CannotCopy("it is in use; end the service first")
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
            "only a SQLite store is a file; of PostgreSQL pg_dump and pg_restore make and restore "
            "copies (docs/operations.md)"
        )
    return Path(parsed.database)


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=10)


def _check(file: Path) -> None:
    """Raises CannotCopy unless every page and every reference is as it should be."""
    try:
        with closing(_opened(file)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            lost = connection.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.DatabaseError as failure:
        raise CannotCopy(f"{file} is damaged: {failure}") from None
    if found != ["ok"] or lost:
        raise CannotCopy(f"{file} is damaged: {found[0] if found != ['ok'] else lost}")


def _check_unused(store: Path) -> None:
    """Raises CannotCopy where a process has the store open; puts its log into it."""
    with closing(sqlite3.connect(store, timeout=0)) as connection:
        try:
            connection.execute("PRAGMA journal_mode=DELETE")  # only who is alone may
        except sqlite3.OperationalError:
            raise CannotCopy("it is in use; end the service first") from None
        except sqlite3.DatabaseError:
            return  # a damaged one is what copies are for


@contextmanager
def _instead_of(file: Path) -> Iterator[Path]:
    """A new file for its owner alone, which takes the place of another once it is whole."""
    with tempfile.TemporaryDirectory(prefix=".meshwright-", dir=file.absolute().parent) as folder:
        made = Path(folder) / file.name
        made.touch(mode=0o600)
        yield made
        with made.open("rb") as whole:
            os.fsync(whole.fileno())
        made.replace(file)
        for log in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file.with_name(file.name + log).unlink()
