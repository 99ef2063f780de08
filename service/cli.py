"""`meshwright-server`: run the service from the shell.

What only `serve` and `worker` need is loaded by them: keys are made in half the time.
"""

from __future__ import annotations

import json
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from prometheus_client import start_http_server

from meshwright.planner import find_planner, find_verifier
from meshwright.schema import Unavailable
from service import logs
from service.heap import keep_arenas_few
from service.key_commands import keys
from service.keys import Keys
from service.listening import is_loopback, listen, url_of
from service.settings import Settings
from service.shell import Folder, Store, refused, say, settings_of, shown, store
from service.store_commands import db

if TYPE_CHECKING:
    from service.state import State

MetricsPort = Annotated[
    int | None, typer.Option(help="Serve metrics there too, to this machine; 0 takes a free one.")
]
cli = typer.Typer(help="The Meshwright service.", no_args_is_help=True, add_completion=False)
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
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain in PEM: speak HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, for its owner alone.")] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run the API and its workers until a signal ends them."""
    settings = settings_of(
        host=host, port=port, database_url=database_url, data_dir=data_dir, workers=workers,
        tls_cert=tls_cert, tls_key=tls_key, metrics_port=metrics_port,
    )  # fmt: skip
    logs.configure(settings.log)
    keep_arenas_few()
    from service.web import Web, check_tls

    try:
        check_tls(settings)
    except ValueError as wrong:
        raise refused(str(wrong)) from None
    with _listener(settings) as listener, _opened(settings):
        _check_keys(settings)
        try:
            web = Web(settings)
            web.config.load()
        except (ssl.SSLError, OSError) as wrong:
            raise refused(f"--tls-cert, --tls-key: {wrong}") from None
        with _metrics_served(web.service):
            scheme = "https" if settings.tls_cert else "http"
            say(f"Meshwright at {url_of(listener, scheme)} (store: {shown(settings.database)})")
            web.run(sockets=[listener])


@cli.command()
def worker(
    database_url: Store = None,
    data_dir: Folder = None,
    workers: Annotated[int | None, typer.Option(help="Searches at the same time.")] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run workers without an API until a signal ends them; any number, on one PostgreSQL."""
    settings = settings_of(
        database_url=database_url, data_dir=data_dir, workers=workers, metrics_port=metrics_port
    )
    if not settings.workers:
        raise refused("a worker without workers does nothing: --workers 1 or more")
    logs.configure(settings.log)
    keep_arenas_few()
    with _opened(settings):
        from service.app import build

        state = build(settings)
        _end_at_signals(state)
        with _metrics_served(state):
            state.start()
            store_ = shown(settings.database)
            say(f"Meshwright works (store: {store_}, searches: {settings.workers})")
            for one in state.workers:
                while one.is_alive():
                    one.wait(timeout_s=1)  # a wait without an end would keep signals waiting
            state.stop()


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


def _end_at_signals(state: State) -> None:
    """At the first one in good order; at the second at once."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def end(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        state.begin_to_stop()

    for number in numbers:
        signal.signal(number, end)


@contextmanager
def _metrics_served(state: State) -> Iterator[None]:
    """Serve this process's metrics on a port of their own, where one is set."""
    settings = state.settings
    if settings.metrics_port is None:
        yield
        return
    try:
        server, thread = start_http_server(
            settings.metrics_port, settings.metrics_host, state.metrics.registry
        )
    except OSError as failure:
        at = f"{settings.metrics_host} port {settings.metrics_port}"
        raise refused(f"cannot serve metrics on {at}: {failure.strerror}") from None
    host, port = server.server_address[:2]
    say(f"Metrics at http://{host!s}:{port}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


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
