"""`meshwright-server`: run the service from the shell."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from service.app import create_app
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
    settings = Settings().model_copy(update={k: v for k, v in given.items() if v is not None})
    if not settings.allow_remote and not is_loopback(settings.host):
        typer.echo(
            f"meshwright-server: {settings.host} can be reached from other machines, and the "
            "service asks nobody who they are; set MESHWRIGHT_ALLOW_REMOTE=true where a proxy or "
            "a firewall decides that",
            err=True,
        )
        raise typer.Exit(2)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with listen(settings.host, settings.port) as listener:
        typer.echo(f"Meshwright at {url_of(listener)} (store: {settings.database})")
        sys.stdout.flush()
        server(settings).run(sockets=[listener])


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
