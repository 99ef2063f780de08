"""The hostile corpus against a real server: refused by name, in bounded memory and time."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.conftest import server
from tests.service.hostile import LIMITS, MB, Hostile, corpus

CORPUS = tuple(corpus())
MEMORY_BYTES = 400 * MB  # over what the server takes when idle; the largest body is 16 MB
TIME_S = 30.0  # of one answer, on a machine that has other things to do; most take milliseconds
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIMITS.items():
            patch.setenv(name, value)
        with server(tmp_path_factory.mktemp("store")) as found:
            yield found


@pytest.fixture(scope="module")
def idle_bytes(running: tuple[str, int]) -> int:
    return peak_bytes(running[1])


def test_the_corpus_is_large_and_its_names_are_its_own() -> None:
    assert len(CORPUS) >= 100
    assert len({own.name for own in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("hostile", CORPUS, ids=lambda own: own.name.replace(" ", "-"))
def test_a_hostile_body_is_refused_by_name(
    running: tuple[str, int], idle_bytes: int, hostile: Hostile
) -> None:
    url, pid = running
    headers = {**JSON, **({"Content-Encoding": hostile.encoding} if hostile.encoding else {})}
    began = time.monotonic()
    answer = httpx.post(url + hostile.path, content=hostile.body(), headers=headers, timeout=TIME_S)
    assert time.monotonic() - began < TIME_S
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (
        hostile.status,
        f"urn:meshwright:problem:{hostile.slug}",
    ), problem["detail"][:300]
    assert problem["errors"][0]["pointer"] == hostile.pointer, problem["detail"][:300]
    assert len(answer.content) < 16_384
    assert peak_bytes(pid) - idle_bytes < MEMORY_BYTES


HEAD = "POST /v1/graphs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (HEAD + "Content-Length: 100\r\n\r\n{", (408,)),
        (HEAD + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", (408,)),
        (HEAD + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n{", (400, 408)),
        (HEAD + "Content-Length: -1\r\n\r\n{}", (400,)),
        (HEAD + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", (400,)),
        (HEAD + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)),
        (HEAD + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
        (HEAD + "Content-Length: 99999999999999999999\r\n\r\n{", (400, 408, 413)),
        (HEAD + "".join(f"X-{i}: a\r\n" for i in range(20_000)) + "\r\n", (400, 431)),
        (HEAD + f"X: {'a' * 1_000_000}\r\n\r\n", (400, 431)),
        (HEAD + "X: a\0b\r\n\r\n", (400,)),
        (HEAD + "Content-Length: 2\r\n continued\r\n\r\n{}", (400,)),
        (f"GET /{'a' * 1_000_000} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 414)),
        ("GET /v1/plans HTTP/1.1\r\n\r\n", (400, 421)),
        ("GET http://elsewhere/v1/plans HTTP/1.1\r\nHost: elsewhere\r\n\r\n", (421,)),
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        ("GET /v1/graphs/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 421)),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400,)),
    ],
    ids=lambda own: own[-60:].encode("unicode_escape").decode() if isinstance(own, str) else None,
)
def test_hostile_bytes_get_an_answer_or_an_end(
    running: tuple[str, int], sent: str, statuses: tuple[int, ...]
) -> None:
    url, pid = running
    parts = httpx.URL(url)
    with socket.create_connection((parts.host, parts.port), timeout=TIME_S * 2) as raw:
        answer = b""
        try:
            raw.sendall(sent.encode("latin-1"))
            while b"\r\n" not in answer:
                piece = raw.recv(65536)
                if not piece:
                    break
                answer += piece
        except ConnectionResetError:  # it had read enough
            pass
    assert int(answer.split()[1]) in statuses
    assert httpx.get(url + "/healthz").status_code == 200
    assert Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("begun", ["", "GET", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
@pytest.mark.parametrize("is_second", [False, True])
def test_headers_that_drip_in_are_cut_off(
    running: tuple[str, int], begun: str, is_second: bool
) -> None:
    parts = httpx.URL(running[0])
    with socket.create_connection((parts.host, parts.port), timeout=TIME_S * 2) as raw:
        if is_second:
            raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += raw.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
        raw.sendall(begun.encode())
        deadline = time.monotonic() + TIME_S * 2
        while not select.select([raw], [], [], 0.1)[0]:
            assert time.monotonic() < deadline
            if begun:
                raw.sendall(b"a")
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(65536) == b""


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
