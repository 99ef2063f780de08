"""`python -m bench.load [--seconds S] [--database URL | --postgresql]`: what one API answers.

Eight connections, made by wrk (Debian's package) on the same machine; one worker, with no work.
Plans stored beforehand: copies of one small plan under other names. Memory: resident, of the API's
process, before and after all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from bench.ending import end, measured
from bench.postgresql import running
from bench.series_parallel import series_parallel
from bench.small_net import asked
from bench.timing import median_seconds, reference_loop, say
from meshwright.plugins.planner import preset
from meshwright.schema import Graph, Plan, Request
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.store import documents, plan_index
from meshwright_service.store.database import Database
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_solver.planning.planner import plan as planned

CONNECTIONS = 8
STORED = 10_000
ASKED = asked("net")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of each row")
    parser.add_argument("--database", help="SQLAlchemy URL of an empty store")
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL of its own")
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("bench.load needs wrk: apt-get install wrk")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshwright-load-")))
        store = given.database or f"sqlite:///{folder / 'meshwright.db'}"
        if given.postgresql:
            server = stack.enter_context(running())
            store = server.url(server.create())
        plan = fill(store)
        url, pid = stack.enter_context(serving(store, folder))
        _table(url, pid, plan, folder, given.seconds)


def fill(store: str, *, count: int = STORED) -> Plan:
    """Store so many plans; one of them."""
    graph, topology = Graph.from_dict(ASKED["graph"]), preset("h100-1x4")
    found = planned(Request.from_dict({**ASKED, "topology": topology.to_dict()})).plan
    assert found is not None
    database = Database(store)
    database.upgrade()
    with database.writing() as connection:
        for document in (graph, topology):
            documents.put(connection, DEFAULT_TENANT, document, now=database.now)
        for number in range(count):
            own = found.model_copy(update={"name": f"net {number}"})
            documents.put_plan(connection, DEFAULT_TENANT, stored_plan(own), now=database.now)
            plan_index.label(
                connection, DEFAULT_TENANT, own.id, add=[f"l{number % 1000}"], remove=[]
            )
    database.close()
    return own


@contextmanager
def serving(
    store: str, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[str, int]]:
    """The API with one worker, in a process of its own: its URL and process id."""
    command = [
        sys.executable,
        "-m",
        "meshwright_service.cli",
        "serve",
        "--port",
        "0",
        "--database",
        store,
    ]
    environment = {**os.environ, "MESHWRIGHT_DATA_DIR": str(folder), **(settings or {})}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
    try:
        assert process.stdout is not None
        found = re.search(r"http://[0-9.]+:\d+", process.stdout.readline())
        assert found
        yield found[0], process.pid
    finally:
        end(process)


def _table(url: str, pid: int, plan: Plan, folder: Path, seconds: int) -> None:
    httpx.post(f"{url}/v1/plan", json=ASKED, headers={"Prefer": "wait=60"}, timeout=90)
    before = resident_bytes(pid)
    say(f"| {CONNECTIONS} connections, wrk | a second | median | 99 % |")
    say("| --- | --- | --- | --- |")
    tag = {"If-None-Match": f'"{plan.id}"'}
    cached = folder / "cached.lua"
    cached.write_text(
        f'wrk.method = "POST"\nwrk.body = {json.dumps(json.dumps(ASKED))}\n'
        'wrk.headers["Content-Type"] = "application/json"\n'
    )
    rows: tuple[tuple[str, str, dict[str, str], Path | None], ...] = (
        ("a plan, If-None-Match: 304", f"/v1/plans/{plan.id}", tag, None),
        ("a plan, whole", f"/v1/plans/{plan.id}", {}, None),
        ("a cached request submitted", "/v1/plan", {}, cached),
        (f"50 of {STORED:,} plans listed", "/v1/plans", {}, None),
    )
    for name, path, headers, script in rows:
        rate, median, worst = wrk(url + path, headers, script, seconds)
        say(f"| {name} | {rate:,.0f} | {median} | {worst} |")
    with httpx.Client(base_url=url, timeout=60) as http:
        _one("50 plans listed, filtered by graph", http, f"/v1/plans?graph={plan.graph}")
        _one("50 plans listed, label=l77?", http, "/v1/plans?label=l77%3F")
        _one("no plan listed, model=other*", http, "/v1/plans?model=other*")
        _upload(http)
    reference_s, _ = median_seconds(reference_loop)
    after = resident_bytes(pid)
    say(f"| numpy reference loop | | {reference_s * 1e3:.1f} ms | |")
    say(f"| API's memory before and after | | {before >> 20} MiB | {after >> 20} MiB |")


def wrk(
    url: str, headers: dict[str, str], script: Path | None, seconds: int
) -> tuple[float, str, str]:
    """Answers a second, median and 99th percentile; raises where one is an error."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    command += ["-s", str(script)] if script else []
    ran = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    if "Non-2xx or 3xx" in ran.stdout or "Socket errors" in ran.stdout:
        raise RuntimeError(ran.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", ran.stdout)
    times = dict(re.findall(r"(\d\d)%\s+([\d.]+\w+)", ran.stdout))
    assert rate
    return float(rate[1]), times["50"], times["99"]


def _one(name: str, http: httpx.Client, path: str) -> None:
    _timed(name, lambda: http.get(path))


def _upload(http: httpx.Client) -> None:
    """A graph of 20,000 ops, each time another one."""
    graph = series_parallel(20_000).to_dict()

    def send() -> httpx.Response:
        graph["name"] = f"sent at {time.monotonic()}"
        return http.post("/v1/graphs", json=graph)

    _timed(f"a graph of {len(graph['ops']):,} ops stored", send)


def _timed(name: str, ask: Callable[[], httpx.Response]) -> None:
    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        answer = ask()
        seconds.append(time.perf_counter() - started)
        answer.raise_for_status()
    median, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
    say(f"| {name} (one after another) | | {median:.0f} ms | {worst:.0f} ms |")


def resident_bytes(pid: int) -> int:
    """What a process has in memory now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    measured(main)
