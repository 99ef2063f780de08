"""`python -m bench.mixed_load [--requests N] [--postgresql]`: an hour of mixed load in minutes.

36,000 requests are ten a second for an hour. Eight threads of httpx on the same machine, each with
a connection, ask in turns: plans by ETag and whole, cached and new requests, lists, jobs, graphs
stored, bodies that are wrong. Printed: the resident memory of the API with its worker, and how it
grows over the second half, when all that is kept is filled.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np

from bench.ending import measured
from bench.load import CONNECTIONS, fill, resident_bytes, serving
from bench.postgresql import running
from bench.small_net import asked
from bench.timing import say
from meshwright.schema import Plan

HOUR = 36_000  # requests
SAMPLES = 40
# how often each is asked, in relation
KINDS = {
    "plan by ETag": 40, "plan whole": 10, "cached request": 20, "list": 10, "job": 10, "graph": 5,
    "new request": 1, "wrong body": 4,
}  # fmt: skip
WANTED = {
    "plan by ETag": (304,), "graph": (200, 201), "new request": (200, 202, 429),
    "wrong body": (422,),
}  # fmt: skip


class Load:
    """Asks until the count is reached."""

    def __init__(self, url: str, plan: Plan, count: int) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self._url = url
        self._plan = plan
        self._count = count
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        return self.answers.total()

    def run(self) -> None:
        """One connection's requests."""
        with httpx.Client(base_url=self._url, timeout=60) as http:
            while (number := next(self._numbers)) < self._count:
                random = Random(number)
                kind = random.choices(list(KINDS), list(KINDS.values()))[0]
                answer = http.request(**self._request(kind, number, random))
                if answer.status_code not in WANTED.get(kind, (200,)):
                    raise RuntimeError(f"{kind}: {answer.status_code} {answer.text[:300]}")
                with self._lock:
                    self.answers[kind, answer.status_code] += 1

    def _request(self, kind: str, number: int, random: Random) -> dict[str, Any]:
        plan = self._plan
        match kind:
            case "plan by ETag":
                tag = {"If-None-Match": f'"{plan.id}"'}
                return {"method": "GET", "url": f"/v1/plans/{plan.id}", "headers": tag}
            case "plan whole":
                return {"method": "GET", "url": f"/v1/plans/{plan.id}"}
            case "cached request":
                return {"method": "POST", "url": "/v1/plan", "json": asked("net")}
            case "list":
                query = random.choice(["", f"?graph={plan.graph}", "?page_size=200"])
                return {"method": "GET", "url": f"/v1/plans{query}"}
            case "job":
                return {"method": "GET", "url": "/v1/jobs?page_size=20"}
            case "graph":
                body = asked(f"net {random.randrange(self._count // 20 + 1)}")["graph"]
                return {"method": "POST", "url": "/v1/graphs", "json": body}
            case "new request":
                return {"method": "POST", "url": "/v1/plan", "json": asked(f"net {number}")}
        return {"method": "POST", "url": "/v1/plan", "json": {**asked("net"), "graph": {}}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mixed_load", description=__doc__)
    parser.add_argument("--requests", type=int, default=HOUR)
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL of its own")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshwright-load-")))
        store = f"sqlite:///{folder / 'meshwright.db'}"
        if given.postgresql:
            server = stack.enter_context(running())
            store = server.url(server.create())
        plan = fill(store, count=1000)
        url, pid = stack.enter_context(serving(store, folder))
        httpx.post(
            f"{url}/v1/plan", json=asked("net"), headers={"Prefer": "wait=60"}, timeout=90
        ).raise_for_status()
        load = Load(url, plan, given.requests)
        _measure(load, pid, given.requests)
        if load.done < given.requests:
            errors = [line for line in (folder / "log").open() if '"level": "ERROR"' in line]
            raise SystemExit("a request was not answered as it should be\n" + "".join(errors))


def _measure(load: Load, pid: int, count: int) -> None:
    threads = [threading.Thread(target=load.run, daemon=True) for _ in range(CONNECTIONS)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    seen: list[tuple[int, int]] = []
    say("| requests | seconds | memory |")
    say("| --- | --- | --- |")
    while load.done < count and any(thread.is_alive() for thread in threads):
        if load.done >= len(seen) * count / SAMPLES:
            took_s, memory = time.monotonic() - begun, resident_bytes(pid)
            seen.append((load.done, memory))
            say(f"| {seen[-1][0]:,} | {took_s:.0f} | {memory / 2**20:.1f} MiB |")
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    half = np.array([own for own in seen if own[0] >= count / 2], dtype=float)
    slope = float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) if len(half) > 1 else float("nan")
    say(f"| growth over the second half | | {slope * HOUR / 2**20:.1f} MiB an hour |")
    for (kind, status), times in sorted(load.answers.items()):
        say(f"| {kind}: {status} | | {times:,} times |")


if __name__ == "__main__":
    measured(main)
