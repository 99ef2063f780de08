"""Host and Origin checks against DNS rebinding and cross-site request forgery.

A page whose name resolves to 127.0.0.1 (DNS rebinding) reaches local services, with its own name as
Host. A page of another site can send writes, with its own name as Origin. An IP address as Host
cannot come from DNS rebinding.
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
    """The valid host names of a service.

    host: the address that it listens on. more: further names, separated by commas; `*.name` matches
    all subdomains of a name.
    """

    def __init__(self, host: str, more: str) -> None:
        named = {name.strip().lower() for name in more.split(",") if name.strip()}
        self._below = tuple(name[1:] for name in named if name.startswith("*."))
        self._more = frozenset(named)
        self._is_any = _is_any(host)
        self._own = frozenset({host.lower(), socket.gethostname().lower()})

    def check(self, request: Request) -> None:
        """Raise WrongHost for an invalid Host, and WrongOrigin for a write of another origin."""
        hosts = request.headers.getlist("host")
        self.check_host(hosts)
        origins = request.headers.getlist("origin")
        if request.method in READS or not origins:
            return
        if len(origins) > 1 or not self._is_own(origins[0], hosts[0]):
            raise WrongOrigin(
                f"a page of {origins[0][:100]!r} sent a write to {hosts[0][:100]!r}. Write from a "
                "page of this service, or add the host to MESHWRIGHT_ALLOWED_HOSTS"
            )

    def check_host(self, hosts: Sequence[str]) -> None:
        """Raise WrongHost unless there is one Host header, with a name of the service."""
        host = _host(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._knows(host):
            raise WrongHost(
                f"the Host header {hosts[0][:100] if hosts else ''!r} does not name this service. "
                "Add the name to MESHWRIGHT_ALLOWED_HOSTS if it should"
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
    """The name in `name:port`, without brackets; None for a malformed value."""
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
    """Whether a listening address means all addresses of the machine."""
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified
