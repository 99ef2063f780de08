"""`meshwright-server keys`: keys of any tenant, for whoever has the store in hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from meshwright_service.api.resources import time_if
from meshwright_service.auth.api_keys import Key, Keys
from meshwright_service.auth.principals import SCOPES, scopes_of
from meshwright_service.cli.shell import Folder, Store, refused, say, settings_of, store
from meshwright_service.common.tenant import Tenant

keys = typer.Typer(help="The API keys.", no_args_is_help=True)
TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
DAY_S = 86400.0


@keys.command("create")
def create(
    tenant: Annotated[str, typer.Option(help="Whose key; a new name is a new tenant.")] = "default",
    scope: Annotated[
        list[str] | None, typer.Option(help="What it may do, repeated for more; admin by default.")
    ] = None,
    name: Annotated[str, typer.Option(help="What lists call it.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36500, help="How long it works; ever by default.")
    ] = None,
    database_url: Store = None,
    data_dir: Folder = None,
) -> None:
    """Make a key: its secret is printed, alone and this once."""
    if not TENANT.fullmatch(tenant):
        raise refused(
            f"--tenant: {tenant[:80]!r} is no name; take small letters, digits, '.', '_' and '-'"
        )
    try:
        scopes = scopes_of(scope or ["admin"])
    except ValueError as wrong:
        raise refused(f"--scope: {wrong}") from None
    if len(name) > 200 or not name.isprintable():
        raise refused("--name: takes at most 200 printable characters")
    with _keys(database_url=database_url, data_dir=data_dir) as found:
        made, secret = found.create(
            Tenant(tenant),
            name=name,
            scopes=scopes,
            expires_s=None if days is None else days * DAY_S,
        )
    typer.echo(f"{made.id} of the tenant {tenant}: {_scopes(made)}", err=True)
    say(secret)


@keys.command("list")
def list_(database_url: Store = None, data_dir: Folder = None) -> None:
    """List the keys of all tenants, without their secrets."""
    with _keys(database_url=database_url, data_dir=data_dir) as found:
        for key in found.every():
            say(_line(key))


@keys.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Its id, as `keys list` says it.")],
    database_url: Store = None,
    data_dir: Folder = None,
) -> None:
    """End a key, for good."""
    with _keys(database_url=database_url, data_dir=data_dir) as found:
        own = [one for one in found.every() if one.id == key]
        if not own:
            raise refused(f"no key has the id {key[:100]!r}; `keys list` says them")
        say(_line(found.revoke(own[0].tenant, key)))


@contextmanager
def _keys(**options: object) -> Iterator[Keys]:
    with store(settings_of(**options)) as database:
        database.open()
        yield Keys(database)


def _line(key: Key) -> str:
    times = {"expires": key.expires, "used": key.used, "revoked": key.revoked}
    said = [f"{what} {time_if(at)}" for what, at in times.items() if at is not None]
    return "  ".join([key.id, key.tenant, f"{key.prefix}…", _scopes(key), key.name, *said])


def _scopes(key: Key) -> str:
    return ",".join(scope for scope in SCOPES if scope in key.scopes)
