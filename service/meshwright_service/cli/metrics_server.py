"""Metrics server: serves the metrics of a process on a separate port, without keys.

The server checks the Host header as the API does. A page of another host could otherwise read the
metrics in a browser on this machine by DNS rebinding.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from meshwright_service.api.middleware.host_check import Hosts
from meshwright_service.common.errors import WrongHost

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

SILENT_S = 10.0  # chosen: timeout of a connection without a request


@contextmanager
def serving(
    host: str, port: int, *, registry: CollectorRegistry, allowed_hosts: str
) -> Iterator[str]:
    """Serve the metrics of a registry and yield the URL. Raises OSError for a port in use."""

    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with Server((host, port), _Handler) as server:
        server.set_app(_with_host_check(make_wsgi_app(registry), Hosts(host, allowed_hosts)))
        thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        name, number = server.server_address[:2]
        try:
            yield f"http://{f'[{name!s}]' if ':' in host else name!s}:{number}/metrics"
        finally:
            server.shutdown()
            thread.join(timeout=5)


def _with_host_check(app: WSGIApplication, hosts: Hosts) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        try:
            hosts.check_host([environ.get("HTTP_HOST", "")])  # two headers arrive joined by a comma
        except WrongHost as error:
            problem = error.problem(instance=environ.get("PATH_INFO", "/"))
            start("421 Misdirected Request", [("Content-Type", "application/problem+json")])
            return [json.dumps(problem).encode()]
        return app(environ, start)

    return answer


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without a reverse DNS look-up of the address."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
