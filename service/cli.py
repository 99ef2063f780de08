"""`meshwright-server`: run the service from the shell."""

from __future__ import annotations

import json
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated

import typer
import uvicorn

from meshwright.planner import find_planner, find_verifier
from meshwright.schema import Unavailable
from service.app import build, create_app
from service.key_commands import keys
from service.keys import Keys
from service.listening import is_loopback, listen, url_of
from service.settings import Settings
from service.shell import Folder, Store, refused, say, settings_of, shown, store

cli = typer.Typer(help="The Meshwright service.", no_args_is_help=True, add_completion=False)
db = typer.Typer(help="The store.", no_args_is_help=True)
cli.add_typer(db, name="db")
cli.add_typer(keys, name="keys")


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
    settings = settings_of(
        host=host, port=port, database_url=database_url, data_dir=data_dir, workers=workers
    )
    _log()
    with _listener(settings) as listener, _opened(settings):
        _check_keys(settings)
        web = server(settings)
        say(f"Meshwright at {url_of(listener)} (store: {shown(settings.database)})")
        web.run(sockets=[listener])


@cli.command()
def worker(
    database_url: Store = None,
    data_dir: Folder = None,
    workers: Annotated[int | None, typer.Option(help="Searches at the same time.")] = None,
) -> None:
    """Run workers without an API until a signal ends them; any number, on one PostgreSQL."""
    settings = settings_of(database_url=database_url, data_dir=data_dir, workers=workers)
    if not settings.workers:
        raise refused("a worker without workers does nothing: --workers 1 or more")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    _log()
    with _opened(settings):
        state = build(settings)
        for one in state.workers:
            one.start()
        say(f"Meshwright works (store: {shown(settings.database)}, searches: {settings.workers})")
        while not ended.wait(timeout=1):  # a wait without an end would keep signals waiting
            pass
        for one in state.workers:
            one.stop()
        state.database.close()


@db.command("upgrade")
def upgrade(database_url: Store = None, data_dir: Folder = None) -> None:
    """Bring the store to this program's schema, in one transaction."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with store(settings) as database:
        was = database.revision()
        database.upgrade()
        now = database.revision()
    which = shown(settings.database)
    say(f"{which} is at {now}" + (", as it was" if was == now else f", was {was or 'empty'}"))


@cli.command()
def config(database_url: Store = None, data_dir: Folder = None) -> None:
    """Print the settings that would be used, as JSON, without secrets."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    found = settings.model_dump(mode="json") | {"database_url": shown(settings.database)}
    say(json.dumps(found, indent=2))


def main() -> None:
    """The console script."""
    cli()


def _check_keys(settings: Settings) -> None:
    with store(settings) as database:
        if is_loopback(settings.host) or Keys(database).any():
            return
    raise refused(
        f"{settings.host} can be reached from other machines, and without keys nobody is asked who "
        "they are; make the first one: meshwright-server keys create"
    )


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


def _listener(settings: Settings) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except OSError as failure:
        raise refused(
            f"cannot listen on {settings.host} port {settings.port}: {failure.strerror}; "
            "--port 0 takes a free port"
        ) from None


@contextmanager
def _opened(settings: Settings) -> Iterator[None]:
    """Run with a store of the right schema, and a planner and a verifier that are there."""
    _check_found("planner", settings.planner, find_planner)
    _check_found("verifier", settings.verifier, find_verifier)
    if settings.dask and find_spec("distributed") is None:
        raise refused("MESHWRIGHT_DASK_SCHEDULER needs Dask: pip install 'meshwright-server[dask]'")
    with store(settings) as database:
        database.open()
    yield


def _check_found(what: str, name: str, find: Callable[[str], object]) -> None:
    try:
        find(name)
    except (Unavailable, AttributeError, ImportError) as failure:
        setting = f"MESHWRIGHT_{what.upper()}"
        raise refused(f"{setting}: {name!r} cannot be used: {failure}") from None


if __name__ == "__main__":
    main()
