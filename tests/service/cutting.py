"""A proxy that hands a service's answer on in part or not at all, and then cuts the connection."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True, slots=True)
class Sent:
    """A POST that was handed on, and what the service answered: the client may not know."""

    path: str
    key: str | None
    status: int
    location: str | None


@dataclass
class Cutting:
    """cuts: how many answers to POSTs are still cut. passed: the part of them that goes through."""

    service: str
    cuts: int
    passed: float
    sent: list[Sent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def takes_cut(self, sent: Sent) -> bool:
        """Note a POST; whether its answer is to be cut."""
        with self.lock:
            self.sent.append(sent)
            self.cuts -= 1
            return self.cuts >= 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cutting: Cutting

    def do_GET(self) -> None:
        self._hand_on()

    def do_POST(self) -> None:
        self._hand_on()

    def log_message(self, format: str, *arguments: object) -> None:
        """Tests are silent."""

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        place = urlsplit(self.cutting.service)
        behind = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        try:
            behind.request(self.command, self.path, body, dict(self.headers))
            answer = behind.getresponse()
            content = answer.read()  # the service has committed and said so
        finally:
            behind.close()
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        lines += [f"{name}: {value}" for name, value in answer.getheaders() if name not in HOP]
        whole = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content
        if self.command == "POST":
            found = answer.getheader("location")
            key = self.headers.get("idempotency-key")
            if self.cutting.takes_cut(Sent(self.path, key, answer.status, found)):
                whole = whole[: int(len(whole) * self.cutting.passed)]
                self.close_connection = True
        self.wfile.write(whole)


@contextmanager
def cutting(service: str, *, cuts: int, passed: float) -> Iterator[Cutting]:
    """Before a service: the answers to so many POSTs come through in this part alone."""
    made = Cutting(service, cuts, passed)
    handler = type("Handler", (Handler,), {"cutting": made})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join(timeout=120)
