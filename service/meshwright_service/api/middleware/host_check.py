"""Host and Origin: a page of somebody else's must not speak through a user's browser.

A page whose name is made to mean 127.0.0.1 (DNS rebinding) reaches what listens there, with its own
name as Host; a page elsewhere may send writes, with its own name as Origin. An address instead of
a name can be no such page's.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from fastapi import Request

from meshwright_service.common.errors import WrongHost, WrongOrigin
from meshwright_service.common.sockets import is_loopback

READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Hosts:
    """The names by which a service may be spoken to.

    host: the address it listens on. more: further names, separated by commas; `*.name` stands for
    all below one.
    """

    def __init__(self, host: str, more: str) -> None:
        named = {name.strip().lower() for name in more.split(",") if name.strip()}
        self._below = tuple(name[1:] for name in named if name.startswith("*."))
        self._more = frozenset(named)
        self._is_any = _is_any(host)
        self._own = frozenset({host.lower(), socket.gethostname().lower()})

    def check(self, request: Request) -> None:
        """Raises WrongHost, and of writes WrongOrigin."""
        given = request.headers.getlist("host")
        self.check_host(given)
        origins = request.headers.getlist("origin")
        if request.method in READS or not origins:
            return
        if len(origins) > 1 or not self._is_own(origins[0], given[0]):
            raise WrongOrigin(
                f"a page of {origins[0][:100]!r} sent this, which is not {given[0][:100]!r}; only "
                "pages of this service, or of a host in MESHWRIGHT_ALLOWED_HOSTS, may write"
            )

    def check_host(self, given: Sequence[str]) -> None:
        """Raises WrongHost unless there is one Host header, with a name of the service."""
        host = _host(given[0]) if len(given) == 1 else None
        if host is None or not self._knows(host):
            raise WrongHost(
                f"this service is not called {given[0][:100] if given else ''!r}; where it should "
                "be, name that in MESHWRIGHT_ALLOWED_HOSTS"
            )

    def _knows(self, host: str) -> bool:
        if is_loopback(host) or host in self._own or self._names(host):
            return True
        return self._is_any and _is_address(host)

    def _names(self, host: str) -> bool:
        return host in self._more or host.endswith(self._below)

    def _is_own(self, origin: str, host: str) -> bool:
        scheme, _, rest = origin.lower().partition("://")
        if scheme not in ("http", "https"):
            return False
        port = ":443" if scheme == "https" else ":80"
        if rest.removesuffix(port) == host.lower().removesuffix(port):
            return True
        name = _host(rest)
        return name is not None and self._names(name)


def _host(netloc: str) -> str | None:
    """The name in `name:port`, without brackets; None of what is neither."""
    if any(character in netloc for character in "@/?#\\") or not netloc.isascii():
        return None
    try:
        parts = urlsplit(f"//{netloc}")
        parts.port  # noqa: B018  raises where it is no number
    except ValueError:
        return None
    return parts.hostname


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_any(host: str) -> bool:
    """Whether an address to listen on stands for all of a machine's."""
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified
