"""Health check: requests /healthz from the service of a configuration on this machine."""

from __future__ import annotations

import http.client
import ipaddress
import ssl

from meshwright_service.common.settings import Settings

WAIT_S = 5.0  # chosen: half the timeout of the Dockerfile's HEALTHCHECK


class Unhealthy(Exception):
    """The service does not answer, or answers with an error."""


def check(settings: Settings) -> str:
    """Request /healthz and return its URL; raises Unhealthy.

    The certificate is not verified: it has the public name of the service. The request stays on
    this machine and has no key.
    """
    if not settings.port:
        raise Unhealthy("port 0 is a different port at every start. Set MESHWRIGHT_PORT")
    host = _reachable(settings.host)
    connection: http.client.HTTPConnection
    if settings.tls_cert is None:
        connection = http.client.HTTPConnection(host, settings.port, timeout=WAIT_S)
    else:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            host, settings.port, timeout=WAIT_S, context=context
        )
    scheme = "http" if settings.tls_cert is None else "https"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}/healthz"
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as failure:
        raise Unhealthy(f"{url} does not answer: {failure or type(failure).__name__}") from None
    finally:
        connection.close()
    if status != http.client.OK:
        raise Unhealthy(f"{url} answers {status}")
    return url


def _reachable(host: str) -> str:
    """The host, or the loopback address for a service that listens on all addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"
