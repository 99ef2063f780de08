"""`meshwright-server`: the command line of the service.

`serve` and `worker` import their modules themselves, which halves the start of other commands.
"""

from __future__ import annotations

import json
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshwright.cli.version import version_option
from meshwright.plugins.planner import find_planner, find_verifier
from meshwright.schema import Unavailable
from meshwright_service.auth.api_keys import Keys
from meshwright_service.cli import health_check, metrics_server
from meshwright_service.cli.db import db
from meshwright_service.cli.keys import keys
from meshwright_service.cli.shell import Folder, Store, refused, say, settings_of, shown, store
from meshwright_service.common.malloc_arenas import keep_arenas_few
from meshwright_service.common.settings import Settings
from meshwright_service.common.sockets import is_loopback, listen, url_of
from meshwright_service.common.temporary_folder import ensure_temporary_folder
from meshwright_service.observability import logs

if TYPE_CHECKING:
    from meshwright_service.api.state import State

MetricsPort = Annotated[
    int | None, typer.Option(help="Port of a metrics server on this machine; 0 takes a free port.")
]
cli = typer.Typer(help="The Meshwright service.", no_args_is_help=True, rich_markup_mode=None)
cli.add_typer(db, name="db")
cli.add_typer(keys, name="keys")


@cli.callback()
def root(
    _version: Annotated[bool, version_option("meshwright-server")] = False,
) -> None:
    """The Meshwright service."""


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free port.")] = None,
    database_url: Store = None,
    data_dir: Folder = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of concurrent searches; 0 leaves them to `worker`.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain in PEM; enables HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Private key in PEM, readable by its owner only.")
    ] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run the API and its workers until a signal ends them."""
    settings = settings_of(
        host=host, port=port, database_url=database_url, data_dir=data_dir, workers=workers,
        tls_cert=tls_cert, tls_key=tls_key, metrics_port=metrics_port,
    )  # fmt: skip
    logs.configure(settings.log)
    keep_arenas_few()
    _ensure_temporary_folder(settings)
    from meshwright_service.cli.server import Web, check_tls

    try:
        check_tls(settings)
    except ValueError as wrong:
        raise refused(str(wrong)) from None
    with _listener(settings) as listener, _checked_setup(settings):
        _check_keys(settings)
        try:
            web = Web(settings)
            web.config.load()
        except (ssl.SSLError, OSError) as wrong:
            raise refused(f"--tls-cert, --tls-key: {wrong}") from None
        with _serve_metrics(web.service):
            scheme = "https" if settings.tls_cert else "http"
            url = url_of(listener, scheme) + settings.root_path
            say(f"Meshwright at {url} (store: {shown(settings.database)})")
            web.run(sockets=[listener])


@cli.command()
def worker(
    database_url: Store = None,
    data_dir: Folder = None,
    workers: Annotated[int | None, typer.Option(help="Number of concurrent searches.")] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run workers without an API until a signal ends them. PostgreSQL allows several processes."""
    settings = settings_of(
        database_url=database_url, data_dir=data_dir, workers=workers, metrics_port=metrics_port
    )
    if not settings.workers:
        raise refused("the worker would run no jobs. Use --workers 1 or more")
    logs.configure(settings.log)
    keep_arenas_few()
    _ensure_temporary_folder(settings)
    with _checked_setup(settings):
        from meshwright_service.api.app import build

        state = build(settings)
        _end_at_signals(state)
        with _serve_metrics(state):
            state.start()
            store_url = shown(settings.database)
            say(f"Meshwright works (store: {store_url}, searches: {settings.workers})")
            for worker_ in state.workers:
                while worker_.is_alive():
                    worker_.wait(timeout_s=1)  # a wait without a timeout would delay signals
            state.stop()


@cli.command()
def demo(
    graph: Annotated[Path, typer.Option(help="Graph file, or example:NAME.")] = Path(
        "example:llama3-8b"
    ),
    topology: Annotated[str, typer.Option(help="Preset of a topology.")] = "h100-8x8",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free port.")] = 0,
    database_url: Store = None,
    data_dir: Folder = None,
) -> None:
    """Run the service on this machine, plan one graph, and print where to look at the plan."""
    settings = settings_of(port=port, database_url=database_url, data_dir=data_dir)
    from meshwright_service.cli import demo as demonstration

    demonstration.run(graph, topology, settings)


@cli.command()
def config(database_url: Store = None, data_dir: Folder = None) -> None:
    """Print the settings as JSON, without secrets."""
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    values = settings.model_dump(mode="json") | {"database_url": shown(settings.database)}
    say(json.dumps(values, indent=2))


@cli.command()
def health(
    host: Annotated[str | None, typer.Option(help="Address of the service.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the service.")] = None,
) -> None:
    """Request /healthz from the service of this configuration; exit code 1 without an answer."""
    try:
        say(f"{health_check.check(settings_of(host=host, port=port))} answers")
    except health_check.Unhealthy as why:
        typer.echo(f"meshwright-server: {why}", err=True)
        raise typer.Exit(1) from None


def main() -> None:
    """The console script."""
    cli()


def _ensure_temporary_folder(settings: Settings) -> None:
    try:
        ensure_temporary_folder(settings.data_dir)
    except OSError as failure:
        raise refused(
            f"no folder for temporary files is writable, nor is {settings.data_dir}: "
            f"{failure.strerror or failure}. Mount a writable /tmp, or set TMPDIR"
        ) from None


def _check_keys(settings: Settings) -> None:
    with store(settings) as database:
        if is_loopback(settings.host) or Keys(database).any():
            return
    raise refused(
        f"{settings.host} can be reached from other machines, and without keys any client may use "
        "the service. Create the first key: meshwright-server keys create"
    )


def _end_at_signals(state: State) -> None:
    """End in order at the first signal, at once at the second."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def end(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        state.begin_to_stop()

    for number in numbers:
        signal.signal(number, end)


@contextmanager
def _serve_metrics(state: State) -> Iterator[None]:
    """Serve the metrics of this process on a separate port, if the settings name one."""
    settings = state.settings
    if settings.metrics_port is None:
        yield
        return
    at = settings.metrics_host, settings.metrics_port
    served = metrics_server.serving(
        *at, registry=state.metrics.registry, allowed_hosts=settings.allowed_hosts
    )
    with ExitStack() as stack:
        try:
            url = stack.enter_context(served)
        except OSError as failure:
            raise refused(
                f"cannot serve metrics on {at[0]} port {at[1]}: {failure.strerror}; "
                "--metrics-port 0 takes a free port"
            ) from None
        say(f"Metrics at {url}")
        yield


def _listener(settings: Settings) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except OSError as failure:
        raise refused(
            f"cannot listen on {settings.host} port {settings.port}: {failure.strerror}; "
            "--port 0 takes a free port"
        ) from None


@contextmanager
def _checked_setup(settings: Settings) -> Iterator[None]:
    """Check the planner, the verifier and the schema of the store before the block."""
    _check_plugin("planner", settings.planner, find_planner)
    _check_plugin("verifier", settings.verifier, find_verifier)
    if settings.dask and find_spec("distributed") is None:
        raise refused("MESHWRIGHT_DASK_SCHEDULER needs Dask: pip install 'meshwright-server[dask]'")
    with store(settings) as database:
        database.open()
    yield


def _check_plugin(what: str, name: str, find: Callable[[str], object]) -> None:
    try:
        find(name)
    except (Unavailable, AttributeError, ImportError) as failure:
        setting = f"MESHWRIGHT_{what.upper()}"
        raise refused(f"{setting}: {name!r} cannot be used: {failure}") from None
