"""`meshwright-server`: run the service from the shell."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn
from alembic.util import CommandError
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from meshwright.planner import find_planner, find_verifier
from meshwright.schema import Unavailable
from service.app import build, create_app
from service.database import Database, OldSchema
from service.listening import is_loopback, listen, url_of
from service.settings import Settings

cli = typer.Typer(help="The Meshwright service.", no_args_is_help=True, add_completion=False)
db = typer.Typer(help="The store.", no_args_is_help=True)
cli.add_typer(db, name="db")
Store = Annotated[str | None, typer.Option("--database", help="SQLAlchemy URL of the store.")]
Folder = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the SQLite store.")]


@cli.callback()
def root() -> None:
    """The Meshwright service."""


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    database_url: Store = None,
    data_dir: Folder = None,
    workers: Annotated[
        int | None, typer.Option(help="Searches at the same time; 0 leaves them to `worker`.")
    ] = None,
) -> None:
    """Run the API and its workers until a signal ends them."""
    settings = _settings(
        host=host, port=port, database_url=database_url, data_dir=data_dir, workers=workers
    )
    if not settings.allow_remote and not is_loopback(settings.host):
        raise _refused(
            f"{settings.host} can be reached from other machines, and the service asks nobody who "
            "they are; set MESHWRIGHT_ALLOW_REMOTE=true where a proxy or a firewall decides that"
        )
    _log()
    with _listener(settings) as listener, _opened(settings):
        web = server(settings)
        _say(f"Meshwright at {url_of(listener)} (store: {_shown(settings.database)})")
        web.run(sockets=[listener])


@cli.command()
def worker(
    database_url: Store = None,
    data_dir: Folder = None,
    workers: Annotated[int | None, typer.Option(help="Searches at the same time.")] = None,
) -> None:
    """Run workers without an API until a signal ends them; any number, on one PostgreSQL."""
    settings = _settings(database_url=database_url, data_dir=data_dir, workers=workers)
    if not settings.workers:
        raise _refused("a worker without workers does nothing: --workers 1 or more")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    _log()
    with _opened(settings):
        state = build(settings)
        for one in state.workers:
            one.start()
        _say(f"Meshwright works (store: {_shown(settings.database)}, searches: {settings.workers})")
        while not ended.wait(timeout=1):  # a wait without an end would keep signals waiting
            pass
        for one in state.workers:
            one.stop()
        state.database.close()


@db.command("upgrade")
def upgrade(database_url: Store = None, data_dir: Folder = None) -> None:
    """Bring the store to this program's schema, in one transaction."""
    settings = _settings(database_url=database_url, data_dir=data_dir)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with _store(settings) as database:
        was = database.revision()
        database.upgrade()
        now = database.revision()
    shown = _shown(settings.database)
    _say(f"{shown} is at {now}" + (", as it was" if was == now else f", was {was or 'empty'}"))


@cli.command()
def config(database_url: Store = None, data_dir: Folder = None) -> None:
    """Print the settings that would be used, as JSON, without secrets."""
    settings = _settings(database_url=database_url, data_dir=data_dir)
    found = settings.model_dump(mode="json") | {"database_url": _shown(settings.database)}
    _say(json.dumps(found, indent=2))


def main() -> None:
    """The console script."""
    cli()


def server(settings: Settings) -> uvicorn.Server:
    """The web server, not yet started."""
    config = uvicorn.Config(
        create_app(settings),
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    return uvicorn.Server(config)


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


def _settings(**options: Any) -> Settings:
    """The settings of the environment, under the options of the command line."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as failure:
        first = failure.errors()[0]
        name = str(first["loc"][0])
        what = f"--{name.replace('_', '-')}" if name in given else f"MESHWRIGHT_{name.upper()}"
        raise _refused(f"{what}: {first['msg']}, got {first['input']!r}") from None


def _listener(settings: Settings) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except OSError as failure:
        raise _refused(
            f"cannot listen on {settings.host} port {settings.port}: {failure.strerror}; "
            "--port 0 takes a free port"
        ) from None


@contextmanager
def _opened(settings: Settings) -> Iterator[None]:
    """Run with a store of the right schema, and a planner and a verifier that are there."""
    _check_found("planner", settings.planner, find_planner)
    _check_found("verifier", settings.verifier, find_verifier)
    with _store(settings) as database:
        database.open()
    yield


@contextmanager
def _store(settings: Settings) -> Iterator[Database]:
    """The database; what it cannot do is said in one line."""
    try:
        database = Database(settings.database)
        try:
            yield database
        finally:
            database.close()
    except (OSError, ValueError, ImportError, OldSchema, SQLAlchemyError, CommandError) as failure:
        said = str(getattr(failure, "orig", None) or failure).partition("\n")[0]
        raise _refused(f"the store {_shown(settings.database)} cannot be used: {said}") from None


def _check_found(what: str, name: str, find: Callable[[str], object]) -> None:
    try:
        find(name)
    except (Unavailable, AttributeError, ImportError) as failure:
        setting = f"MESHWRIGHT_{what.upper()}"
        raise _refused(f"{setting}: {name!r} cannot be used: {failure}") from None


def _shown(url: str) -> str:
    """A database URL without its password."""
    return re.sub(r"(://[^/@]*:)[^/@]*@", r"\1***@", url)


def _refused(why: str) -> typer.Exit:
    typer.echo(f"meshwright-server: {why}", err=True)
    return typer.Exit(2)


if __name__ == "__main__":
    main()
