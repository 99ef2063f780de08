"""`meshwright-server keys`: API keys of any tenant, for the operator of the store."""

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
    tenant: Annotated[
        str, typer.Option(help="Tenant of the key; a new name is a new tenant.")
    ] = "default",
    scope: Annotated[
        list[str] | None, typer.Option(help="Scope of the key, repeatable; admin by default.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name in lists.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36500, help="Lifetime; unlimited by default.")
    ] = None,
    database_url: Store = None,
    data_dir: Folder = None,
) -> None:
    """Create a key and print its secret, which cannot be shown again."""
    if not TENANT.fullmatch(tenant):
        raise refused(
            f"--tenant: {tenant[:80]!r} is no name. Use lowercase letters, digits, '.', '_' and '-'"
        )
    try:
        scopes = scopes_of(scope or ["admin"])
    except ValueError as wrong:
        raise refused(f"--scope: {wrong}") from None
    if len(name) > 200 or not name.isprintable():
        raise refused("--name: use at most 200 printable characters")
    with _keys(database_url=database_url, data_dir=data_dir) as keys_:
        key, secret = keys_.create(
            Tenant(tenant),
            name=name,
            scopes=scopes,
            expires_s=None if days is None else days * DAY_S,
        )
    typer.echo(f"{key.id} of the tenant {tenant}: {_scopes(key)}", err=True)
    say(secret)


@keys.command("list")
def list_(database_url: Store = None, data_dir: Folder = None) -> None:
    """List the keys of all tenants, without their secrets."""
    with _keys(database_url=database_url, data_dir=data_dir) as keys_:
        for key in keys_.every():
            say(_line(key))


@keys.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the key, from `keys list`.")],
    database_url: Store = None,
    data_dir: Folder = None,
) -> None:
    """Revoke a key permanently."""
    with _keys(database_url=database_url, data_dir=data_dir) as keys_:
        tenants = [entry.tenant for entry in keys_.every() if entry.id == key]
        if not tenants:
            raise refused(f"no key has the id {key[:100]!r}; `keys list` prints the ids")
        say(_line(keys_.revoke(tenants[0], key)))


@contextmanager
def _keys(**options: object) -> Iterator[Keys]:
    with store(settings_of(**options)) as database:
        database.open()
        yield Keys(database)


def _line(key: Key) -> str:
    times = {"expires": key.expires, "used": key.used, "revoked": key.revoked}
    dates = [f"{event} {time_if(at)}" for event, at in times.items() if at is not None]
    return "  ".join([key.id, key.tenant, f"{key.prefix}…", _scopes(key), key.name, *dates])


def _scopes(key: Key) -> str:
    return ",".join(scope for scope in SCOPES if scope in key.scopes)
