"""`meshwright-server db`: schema upgrade, retention, backup and restore of the store."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from meshwright_service.cli.shell import Folder, Store, refused, say, settings_of, shown, store
from meshwright_service.jobs import backup
from meshwright_service.jobs.retention import Retention
from meshwright_service.observability import logs
from meshwright_service.store.database import Database

db = typer.Typer(help="The store.", no_args_is_help=True)
LEAVE_S = 3.0  # chosen: PostgreSQL notices the end of a process within it
LOOK_S = 0.2
File = Annotated[Path, typer.Argument(help="The file of the copy.")]


@db.command("upgrade")
def upgrade(database_url: Store = None, data_dir: Folder = None) -> None:
    """Upgrade the store to the schema of this version, in one transaction."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    logs.configure(settings.log)
    with store(settings, application="meshwright-upgrade") as database:
        before = database.revision()
        if before != database.newest() and not _is_unused(database):
            raise refused(
                f"{shown(settings.database)} is unchanged: a process of Meshwright uses it. "
                "End the service and its workers first"
            )
        database.upgrade()
        after = database.revision()
    name = shown(settings.database)
    say(
        f"{name} is at {after}"
        + (", as it was" if before == after else f", was {before or 'empty'}")
    )


def _is_unused(database: Database) -> bool:
    """Whether no process of the service is connected to PostgreSQL; waits up to LEAVE_S."""
    until = time.monotonic() + LEAVE_S
    while database.service_connections():
        if time.monotonic() > until:
            return False
        threading.Event().wait(LOOK_S)
    return True


@db.command("prune")
def prune(database_url: Store = None, data_dir: Folder = None) -> None:
    """Delete the expired rows now, by the retention settings; the service may run."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    logs.configure(settings.log)
    with store(settings) as database:
        database.open()
        counts = Retention(database, settings).prune()
    say(", ".join(f"{count} {kind}" for kind, count in counts.items()))


@db.command("backup")
def back_up(file: File, database_url: Store = None, data_dir: Folder = None) -> None:
    """Copy a SQLite store into a file and check the copy; the service may run."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    try:
        backup.back_up(settings.database, file)
    except (backup.CannotCopy, OSError) as failure:
        raise refused(f"no copy of {shown(settings.database)}: {failure}") from None
    say(f"{file}: a copy of {shown(settings.database)}, {file.stat().st_size} bytes")


@db.command("restore")
def restore(
    file: File,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing store.")] = False,
    database_url: Store = None,
    data_dir: Folder = None,
) -> None:
    """Restore a SQLite store from a copy; end the service first."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    try:
        count = backup.restore(settings.database, file, replace=replace)
    except (backup.CannotCopy, OSError) as failure:
        raise refused(f"{shown(settings.database)} is unchanged: {failure}") from None
    say(f"{shown(settings.database)} is what {file} was; {count} jobs are queued again")


@db.command("requeue")
def requeue(database_url: Store = None, data_dir: Folder = None) -> None:
    """Queue the jobs that ran at the time of a PostgreSQL dump; run it after the restore."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    with store(settings) as database:
        database.open()
        try:
            count = backup.requeue(database)
        except backup.CannotCopy as failure:
            raise refused(f"{shown(settings.database)} is unchanged: {failure}") from None
    say(f"{shown(settings.database)}: {count} jobs are queued again")
