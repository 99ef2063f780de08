"""`meshwright-server`: run the service from the shell."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn
from alembic.util import CommandError
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from meshwright.planner import find_planner, find_verifier
from meshwright.schema import Unavailable
from service.app import create_app
from service.database import open_store
from service.settings import Settings

cli = typer.Typer(help="The Meshwright service.", no_args_is_help=True, add_completion=False)


@cli.callback()
def root() -> None:
    """The Meshwright service."""


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    database: Annotated[str | None, typer.Option(help="SQLAlchemy URL of the store.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the SQLite store.")] = None,
) -> None:
    """Run the API and its workers until a signal ends them."""
    given = {"host": host, "port": port, "database_url": database, "data_dir": data_dir}
    settings = _settings({name: value for name, value in given.items() if value is not None})
    if not settings.allow_remote and not is_loopback(settings.host):
        raise _refused(
            f"{settings.host} can be reached from other machines, and the service asks nobody who "
            "they are; set MESHWRIGHT_ALLOW_REMOTE=true where a proxy or a firewall decides that"
        )
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with _listener(settings) as listener:
        web = _server(settings)
        typer.echo(f"Meshwright at {url_of(listener)} (store: {_shown(settings.database)})")
        sys.stdout.flush()
        web.run(sockets=[listener])


def main() -> None:
    """The console script."""
    cli()


def _settings(options: dict[str, Any]) -> Settings:
    """The settings of the environment, under the options of the command line."""
    try:
        return Settings(**options)
    except ValidationError as failure:
        first = failure.errors()[0]
        name = str(first["loc"][0])
        what = f"--{name.replace('_', '-')}" if name in options else f"MESHWRIGHT_{name.upper()}"
        raise _refused(f"{what}: {first['msg']}, got {first['input']!r}") from None


def _listener(settings: Settings) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except OSError as failure:
        raise _refused(
            f"cannot listen on {settings.host} port {settings.port}: {failure.strerror}; "
            "--port 0 takes a free port"
        ) from None


def _server(settings: Settings) -> uvicorn.Server:
    """The web server, its store opened and up to date."""
    _check_found("planner", settings.planner, find_planner)
    _check_found("verifier", settings.verifier, find_verifier)
    try:
        open_store(settings.database)
        return server(settings)
    except (OSError, ValueError, ImportError, SQLAlchemyError, CommandError) as failure:
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


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048)
    listener.set_inheritable(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where the socket can be reached."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    main()
