"""What comes in before there is a request: too long, or no HTTP at all."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

from meshwright_service.cli.http_connection import LONGEST
from tests.service.conftest import server


def answered(url: str, sent: bytes) -> tuple[bytes, bytes]:
    """The headers and the body of what a server says to these bytes, before it hangs up."""
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port), timeout=20) as connection:
        connection.sendall(sent)
        said = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    headers, _, body = said.partition(b"\r\n\r\n")
    return headers, body


def test_what_cannot_be_read_is_a_problem_like_any_other(tmp_path: Path) -> None:
    long = b"GET /v1/plans/0/layout?open=".ljust(LONGEST + 1, b"0")  # one too many, and no end yet
    with server(tmp_path) as (url, _):
        for sent in (long, b"hello\r\n\r\n"):
            headers, body = answered(url, sent)
            assert headers.startswith(b"HTTP/1.1 400 ")
            assert b"application/problem+json" in headers.lower()
            problem = json.loads(body)
            assert (problem["type"], problem["status"]) == ("urn:meshwright:problem:not-http", 400)
            assert f"{LONGEST} bytes" in problem["detail"]


def test_headers_have_the_same_limit_in_one_piece(tmp_path: Path) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX: "
    end = b"\r\n\r\n"
    with server(tmp_path) as (url, _):
        for length, status in ((LONGEST, b"200"), (LONGEST + 1, b"400"), (100_000, b"400")):
            sent = head.ljust(length - len(end), b"a") + end
            headers, body = answered(url, sent)
            assert headers.startswith(b"HTTP/1.1 " + status)
            assert (b"urn:meshwright:problem:not-http" in body) == (status == b"400")
