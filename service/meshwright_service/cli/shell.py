"""Shared parts of the `meshwright-server` commands: settings, store and output."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from alembic.util import CommandError
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from meshwright_service.common.secret_files import SecretFileError
from meshwright_service.common.settings import SECRETS, Settings
from meshwright_service.store.database import SERVICE, Database, OldSchema

Store = Annotated[str | None, typer.Option("--database", help="SQLAlchemy URL of the store.")]
Folder = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the SQLite store.")]


def say(line: str) -> None:
    """Write a line to standard output and flush it."""
    typer.echo(line)
    sys.stdout.flush()


def settings_of(**options: Any) -> Settings:
    """The settings; options of the command line override the environment."""
    values = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**values)
    except ValidationError as failure:
        first = failure.errors()[0]
        name = str(first["loc"][0])
        option = f"--{name.replace('_', '-')}" if name in values else f"MESHWRIGHT_{name.upper()}"
        value = "" if name in SECRETS else f", got {first['input']!r}"
        raise refused(f"{option}: {first['msg']}{value}") from None
    except SecretFileError as failure:
        raise refused(str(failure)) from None


@contextmanager
def store(settings: Settings, *, application: str = SERVICE) -> Iterator[Database]:
    """The database; its errors end the command with one line. application: see `Database`."""
    try:
        database = Database(settings.database, application=application)
        try:
            yield database
        finally:
            database.close()
    except (OSError, ValueError, ImportError, OldSchema, SQLAlchemyError, CommandError) as failure:
        reason = str(getattr(failure, "orig", None) or failure).partition("\n")[0]
        raise refused(f"the store {shown(settings.database)} cannot be used: {reason}") from None


def shown(url: str) -> str:
    """A database URL without its password."""
    return re.sub(r"(://[^/@]*:)[^/@]*@", r"\1***@", url)


def refused(why: str) -> typer.Exit:
    """Print an error and return the exit of the command, to be raised."""
    typer.echo(f"meshwright-server: {why}", err=True)
    return typer.Exit(2)
