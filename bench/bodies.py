"""`python -m bench.bodies`: what bodies of one tenant cost the API's process, and other tenants.

One API without workers on SQLite, two tenants. The first one sends gzip bodies of about 100 KB at
the same time, each a valid graph of 55 MB with 3.9 million short strings; then it holds four bodies
of almost 64 MiB each. Meanwhile `/healthz` is asked, and the second tenant uploads graphs of
150 KB, one after the other. Memory: the peak resident set of the API's process.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from bench.ending import measured
from bench.load import serving
from bench.small_net import asked
from bench.timing import say
from meshwright_service.auth.api_keys import Keys
from meshwright_service.common.tenant import Tenant
from meshwright_service.store.database import Database

AT_ONCE = (1, 5, 10)
STRINGS = 3_900_000
HELD, HELD_BYTES, HELD_S = 4, 67_100_000, 15.0
PAUSE_S = 0.05
TIMEOUT_S = 300.0
JSON = {"Content-Type": "application/json"}
GRAPH = asked("net")["graph"]


class Asker:
    """Asks again and again while it lasts: seconds of every answer, and statuses."""

    def __init__(self, ask: Callable[[httpx.Client, int], httpx.Response], url: str) -> None:
        self.seconds: list[float] = []
        self.statuses: Counter[str] = Counter()
        self._ask = ask
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def cells(self) -> str:
        """The median and the maximum."""
        return f"{statistics.median(self.seconds):.3f} | {max(self.seconds):.3f}"

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=TIMEOUT_S) as http:
            number = 0
            while not self._over.wait(PAUSE_S):
                begun = time.perf_counter()
                number += 1
                self.statuses[_status(lambda: self._ask(http, number))] += 1  # noqa: B023  at once
                self.seconds.append(time.perf_counter() - begun)


def main() -> None:
    say(
        "| tenant one sends | answers | idle, MB | peak, MB | /healthz median, s | max | "
        "tenant two's uploads | median, s | max |"
    )
    say("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for count in AT_ONCE:
        _row(f"{count} gzip bodies at once", lambda url, key, n=count: _bombs(url, key, n))
    _row(f"{HELD} bodies of {HELD_BYTES / 1e6:.1f} MB, held {HELD_S:g} s", _held)


def _row(name: str, attack: Callable[[str, str], Counter[str]]) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = f"sqlite:///{folder / 'meshwright.db'}"
        one, two = _keys(store)
        os.environ["MESHWRIGHT_WORKERS"] = "0"
        url, pid = stack.enter_context(serving(store, folder))
        httpx.get(f"{url}/healthz").raise_for_status()
        _upload(httpx.Client(base_url=url), two, 0)
        idle = peak_bytes(pid)
        with (
            Asker(lambda http, _: http.get("/healthz"), url) as health,
            Asker(lambda http, number: _upload(http, two, number), url) as uploads,
        ):
            answers = attack(url, one)
        say(
            f"| {name} | {_counts(answers)} | {idle / 1e6:.0f} | {peak_bytes(pid) / 1e6:.0f} | "
            f"{health.cells} | {_counts(uploads.statuses)} | {uploads.cells} |"
        )


def _bombs(url: str, key: str, count: int) -> Counter[str]:
    bodies = [bomb(number) for number in range(count)]

    def send(body: bytes) -> str:
        headers = {**JSON, **_bearer(key), "Content-Encoding": "gzip"}
        return _status(
            lambda: httpx.post(f"{url}/v1/graphs", content=body, headers=headers, timeout=TIMEOUT_S)
        )

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(send, bodies))


def bomb(number: int) -> bytes:
    """A valid graph of STRINGS notes, as gzip."""
    head, tail = json.dumps({**GRAPH, "name": f"graph {number}", "notes": ["@"]}).split('"@"')
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(head.encode())]
    thousand = b",".join([b'"abcdefghij"'] * 1000)
    for start in range(0, STRINGS, 1000):
        parts.append(packer.compress((b"," if start else b"") + thousand))
    return b"".join([*parts, packer.compress(tail.encode()), packer.flush()])


def _held(url: str, key: str) -> Counter[str]:
    with ExitStack() as stack:
        callers = [stack.enter_context(_holding(url, key)) for _ in range(HELD)]
        time.sleep(HELD_S)
        return Counter(_said(caller) for caller in callers)


@contextmanager
def _holding(url: str, key: str) -> Iterator[socket.socket]:
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port), timeout=TIMEOUT_S) as caller:
        head = "".join(
            f"{name}: {value}\r\n"
            for name, value in {
                "Host": "127.0.0.1", **JSON, **_bearer(key), "Content-Length": HELD_BYTES + 1,
            }.items()
        )  # fmt: skip
        caller.sendall(f"POST /v1/graphs HTTP/1.1\r\n{head}\r\n".encode())
        with suppress(OSError):  # it was refused
            caller.sendall(b" " * HELD_BYTES)
        yield caller


def _said(caller: socket.socket) -> str:
    """The status that was answered meanwhile."""
    caller.settimeout(0.1)
    try:
        return caller.recv(1 << 16).split()[1].decode()
    except TimeoutError:
        return "none"
    except (OSError, IndexError):
        return "cut off"


def _upload(http: httpx.Client, key: str, number: int) -> httpx.Response:
    body = {**GRAPH, "name": f"two's {number}", "notes": ["a" * 100] * 1500}
    return http.post("/v1/graphs", json=body, headers=_bearer(key))


def _keys(store: str) -> tuple[str, str]:
    database = Database(store)
    database.upgrade()
    keys = Keys(database)
    one, two = (
        keys.create(Tenant(tenant), name="bench", scopes=("plan",), expires_s=None)[1]
        for tenant in ("one", "two")
    )
    database.close()
    return one, two


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _status(ask: Callable[[], httpx.Response]) -> str:
    try:
        return str(ask().status_code)
    except httpx.HTTPError as failure:
        return type(failure).__name__


def _counts(statuses: Counter[str]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    measured(main)
