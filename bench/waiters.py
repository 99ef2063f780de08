"""`python -m bench.waiters [--count N] [--seconds S]`: what requests that wait cost the others.

One API without workers on SQLite. N event streams, or long polls, wait for jobs; beside them one
client lists plans, one request after another. `changing`: every followed job reports progress five
times a second. Cores: CPU time of the API's process over the time that passed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx

from bench.ending import measured
from bench.load import serving
from bench.small_net import asked
from bench.timing import median_seconds, reference_loop, say
from meshwright.schema import Progress
from meshwright_service.jobs.leases import Leases
from meshwright_service.store.database import Database

STATE_S = 0.2  # between two reports of a job's progress
GONE_S = 4.0  # until the API has noticed that a caller has gone


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.waiters", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="of requests that wait")
    parser.add_argument("--seconds", type=int, default=8, help="of each row")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waiters-")))
        os.environ["MESHWRIGHT_WORKERS"] = "0"
        store = f"sqlite:///{folder / 'meshwright.db'}"
        url, pid = stack.enter_context(serving(store, folder))
        asyncio.run(_table(url, pid, store, given.count, given.seconds))
    reference_s, _ = median_seconds(reference_loop)
    say(f"| numpy reference loop | {reference_s * 1e3:.1f} | | |")


async def _table(url: str, pid: int, store: str, count: int, seconds: int) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
        jobs = []
        for number in range(20):
            answer = await http.post("/v1/plan", json=asked(f"net {number}"))
            jobs.append(answer.raise_for_status().json()["id"])
        say("| waiting | p50, ms | p99, ms | cores |")
        say("| --- | --- | --- | --- |")
        rows = (
            ("nothing", 0, "", jobs, False),
            (f"{count // 4} event streams of one job", count // 4, "/events", jobs[:1], False),
            (f"{count} event streams of one job", count, "/events", jobs[:1], False),
            (f"{count} event streams of 20 jobs", count, "/events", jobs, False),
            (f"{count} long polls of 20 jobs", count, "?wait=20", jobs, False),
            (f"{count} event streams of one changing job", count, "/events", jobs[:1], True),
            (f"{count} event streams of 20 changing jobs", count, "/events", jobs, True),
            (f"{count} long polls of 20 changing jobs", count, "?wait=20", jobs, True),
        )
        for name, waiting, path, followed, is_changing in rows:
            paths = [f"/v1/jobs/{followed[n % len(followed)]}{path}" for n in range(waiting)]
            with _changing(store, len(followed) if is_changing else 0):
                async with _waiters(http, paths):
                    median, worst, cores = await _probed(http, pid, seconds)
            say(f"| {name} | {median * 1e3:.1f} | {worst * 1e3:.1f} | {cores:.2f} |")


@asynccontextmanager
async def _waiters(http: httpx.AsyncClient, paths: list[str]) -> AsyncIterator[None]:
    async def wait(path: str) -> None:
        while True:
            async with http.stream("GET", path) as answer:
                answer.raise_for_status()
                async for _ in answer.aiter_bytes():
                    pass

    tasks = [asyncio.create_task(wait(path)) for path in paths]
    await asyncio.sleep(2)
    for task in tasks:
        if task.done():
            task.result()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(GONE_S)


async def _probed(http: httpx.AsyncClient, pid: int, seconds: int) -> tuple[float, float, float]:
    """Median and 99th percentile of a list of plans, in seconds, and the API's cores."""
    taken: list[float] = []
    began, cpu = time.monotonic(), _cpu_s(pid)
    while time.monotonic() < began + seconds:
        asked_at = time.perf_counter()
        (await http.get("/v1/plans?page_size=1")).raise_for_status()
        taken.append(time.perf_counter() - asked_at)
        await asyncio.sleep(0.05)
    cores = (_cpu_s(pid) - cpu) / (time.monotonic() - began)
    return statistics.median(taken), sorted(taken)[int(len(taken) * 0.99)], cores


@contextmanager
def _changing(store: str, count: int) -> Iterator[None]:
    """Claim so many jobs and report their progress until the end; then queue them again."""
    database = Database(store)
    leases = Leases(database, lease_s=60)
    claims = [claim for _ in range(count) if (claim := leases.claim("bench"))]
    over = threading.Event()

    def report() -> None:
        done = 0
        while not over.wait(STATE_S):
            done += 1
            for claim in claims:
                leases.progress(claim, Progress(phase="searching", done=done, total=10**6))

    reporting = threading.Thread(target=report)
    reporting.start()
    try:
        yield
    finally:
        over.set()
        reporting.join()
        for claim in claims:
            leases.release(claim)
        database.close()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    measured(main)
