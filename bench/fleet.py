"""`python -m bench.fleet [--jobs N]`: 500 mixed jobs for one worker, and for a fleet.

A PostgreSQL of its own. First one API process and one worker; then two API processes, three workers
and Dask with two, on a fresh store. Eight threads of the Python client ask in turns, each follows
its job to the end. Of twenty jobs: 13 small searches, 3 stated strategies, 2 of pipelines (the ones
that Dask has a part in), 1 to verify, 1 that nothing fits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.ending import end, measured
from bench.faulty_service import ROOT, Program
from bench.postgresql import PostgreSQL, running
from bench.series_parallel import series_parallel
from bench.small_net import asked
from bench.timing import say
from meshwright.client import Client
from meshwright.schema import Budget, Degrees, Graph, Pipeline, Setup
from meshwright_service.store.database import Database

CLIENTS = 8
DASK_WORKERS = 2
INFERENCE = Setup(phase="inference")
OUTCOMES = ("a plan", "a plan, verified", "none fits")


class Asking:
    """Submits jobs of all kinds, and counts what comes of them."""

    def __init__(self, urls: list[str], count: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._urls = urls
        self._numbers = itertools.count()
        self._count = count
        self._lock = threading.Lock()

    def run(self, url: str) -> None:
        """One client's jobs, one after another."""
        with Client(url) as client:
            while (number := next(self._numbers)) < self._count:
                answer = client.plan(**_job(number))
                outcome = "none fits" if answer.plan is None else "a plan"
                outcome += "" if answer.certificate is None else f", {answer.certificate.outcome}"
                with self._lock:
                    self.outcomes[outcome] += 1

    def seconds(self) -> float:
        """How long all take, from the first to the last answer."""
        threads = [
            threading.Thread(target=self.run, args=(url,), daemon=True)
            for url, _ in zip(itertools.cycle(self._urls), range(CLIENTS))
        ]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.outcomes.total() != self._count or not set(self.outcomes) <= set(OUTCOMES):
            raise SystemExit(f"jobs came to other ends: {dict(self.outcomes)}")
        return time.monotonic() - begun


def _job(number: int) -> dict[str, Any]:
    """The request of a number, unlike that of any other number."""
    net = Graph.from_dict(asked(f"net {number}")["graph"])
    small: dict[str, Any] = {"graph": net, "topology": "h100-1x4", "setup": INFERENCE}
    match number % 20:
        case 0 | 10:
            graph = series_parallel(12, seed=number).model_copy(update={"name": f"two {number}"})
            limits = Budget(max_axes=2)
            return {
                "graph": graph, "topology": "h100-2x4", "pipeline": Pipeline(ranks=2),
                "setup": Setup(microbatches=4), "budget": limits,
            }  # fmt: skip
        case 1 | 2 | 3:
            return small | {"degrees": Degrees(dp=4)}
        case 4:
            return small | {"verify": True}
        case 5:
            huge = asked(f"net {number}")["graph"]
            for tensor in huge["tensors"]:
                tensor["shape"] = [1 << 22 if own == 256 else own for own in tensor["shape"]]
            return small | {"graph": Graph.from_dict(huge)}
    return small


@contextmanager
def _fleet(
    server: PostgreSQL, folder: Path, *, apis: int, workers: int, dask: bool
) -> Iterator[list[str]]:
    """URLs of the API processes of a service on a fresh store."""
    store = server.url(server.create())
    database = Database(store)
    database.upgrade()
    database.close()
    folder.mkdir()
    with ExitStack() as stack:
        environment = {
            "PYTHONPATH": str(ROOT),
            "MESHWRIGHT_DATABASE_URL": store,
        }
        if dask:
            environment["MESHWRIGHT_DASK_SCHEDULER"] = stack.enter_context(dask_cluster(folder))
        urls = []
        for number in range(apis):
            port = _free_port()
            words = ["serve", "--port", str(port), "--workers", "0"]
            api = Program(f"API {number}", words, environment, folder / f"api-{number}.log")
            stack.callback(api.end)
            urls.append(f"http://127.0.0.1:{port}")
        for number in range(workers):
            words = ["worker", "--workers", "1"]
            log = folder / f"worker-{number}.log"
            stack.callback(Program(f"worker {number}", words, environment, log).end)
        for url in urls:
            _await(url)
        yield urls


@contextmanager
def dask_cluster(folder: Path) -> Iterator[str]:
    """The address of a scheduler with workers."""
    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "dask"]
    at = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file), "--no-dashboard"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "dask.log").open("wb") as log, ExitStack() as stack:
        for words in (["scheduler", *at], *[_worker(file, folder)] * DASK_WORKERS):
            own = subprocess.Popen(
                [*command, *words], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
            stack.callback(end, own)
            while not file.exists() and own.poll() is None:
                time.sleep(0.05)
        yield str(json.loads(file.read_text())["address"])


def _worker(file: Path, folder: Path) -> list[str]:
    own = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
    return ["worker", "--scheduler-file", str(file), *own]


def _await(url: str) -> None:
    while True:
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    given = parser.parse_args()
    say(f"| {given.jobs} mixed jobs, {CLIENTS} clients | seconds | jobs a second | ends |")
    say("| --- | --- | --- | --- |")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshwright-fleet-")))
        server = stack.enter_context(running())
        for name, own in (
            ("one API, one worker", {"apis": 1, "workers": 1, "dask": False}),
            ("two APIs, three workers, Dask", {"apis": 2, "workers": 3, "dask": True}),
        ):
            with _fleet(server, folder / name.partition(",")[0], **own) as urls:  # type: ignore[arg-type]
                asking = Asking(urls, given.jobs)
                took_s = asking.seconds()
            ends = ", ".join(f"{count} {end}" for end, count in sorted(asking.outcomes.items()))
            say(f"| {name} | {took_s:.0f} | {given.jobs / took_s:.2f} | {ends} |")


if __name__ == "__main__":
    measured(main)
