"""`python -m bench.faults --kills N [--database URL | --postgresql]`: what faults cost.

An API, two workers and their solvers on one store; a client that submits jobs and waits for their
plans. Meanwhile processes are killed with SIGKILL at random moments, workers are frozen until their
lease is over and wake up, the clock jumps by up to a day (libfaketime), the disk of the store is
full (as root, on a tmpfs), and with --postgresql the database is killed and restarted. In the end:
every accepted job has ended, and succeeded, once; every plan is whole and of its job.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
from sqlalchemy import func, select, text
from zstandard import ZstdError

from bench.ending import end_in_order
from bench.faulty_service import Clock, Fault, Service, SmallDisk
from bench.postgresql import PostgreSQL, running
from bench.timing import say
from meshwright.schema import Graph, MeshwrightError, Plan
from service import documents
from service.database import Database
from service.principals import DEFAULT
from service.tables import JobEventRow, JobRow

AT_ONCE = 4  # jobs that the client has open
KINDS = {
    "solver": 10,
    "worker": 5,
    "API": 3,
    "process copied": 2,
}  # how often each is killed, in relation
DISK_BYTES = 256 << 20
END_S = 300.0  # by when all jobs have ended after the last fault


@dataclass
class Client:
    """Submits jobs one after another, each until it is accepted, and follows them to their ends."""

    url: str
    accepted: dict[str, str] = field(default_factory=dict)  # job: the name of its graph
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    longest_s: float = 0.0  # without an answer
    wanted: bool = True

    def run(self) -> None:
        """Until nothing more is wanted and all has ended."""
        open_jobs: set[str] = set()
        number = 0
        while self.wanted or open_jobs:
            if self.wanted and len(open_jobs) < AT_ONCE:
                number += 1
                job = self._ask("POST", "/v1/plan?fresh=false", asked(f"net {number}"))
                self.accepted[job["id"]] = f"net {number}"
                open_jobs.add(job["id"])
            for id_ in sorted(open_jobs):
                job = self._ask("GET", f"/v1/jobs/{id_}")
                if job["state"] in ("succeeded", "failed", "cancelled"):
                    self.ended[id_] = job
                    open_jobs.discard(id_)
            time.sleep(0.05)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        began = time.monotonic()
        while True:
            try:
                answer = httpx.request(method, self.url + path, json=body, timeout=20)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code in (200, 202):
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                found: dict[str, Any] = answer.json()
                if "stages" in found:  # accepted before an answer was lost, and done since
                    return self._ask("GET", answer.headers["location"])
                return found
            if answer is not None and answer.status_code < 500:
                raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            time.sleep(0.05)


def asked(name: str) -> dict[str, Any]:
    """A request for a small net of this name on four devices."""
    return {
        "graph": {
            "name": name,
            "symbols": {"batch": 64},
            "tensors": [
                {"name": "x", "shape": ["batch", 256], "dtype": "bfloat16", "role": "input"},
                {"name": "w", "shape": [256, 256], "dtype": "bfloat16", "role": "parameter"},
                {"name": "y", "shape": ["batch", 256], "dtype": "bfloat16"},
            ],
            "ops": [{"name": "linear", "kind": "matmul", "inputs": ["x", "w"], "outputs": ["y"]}],
            "outputs": ["y"],
        },
        "topology": "h100-1x4",
        "setup": {"phase": "inference"},
    }


def wrongs(store: str, client: Client) -> dict[str, int]:
    """What must be nothing: jobs lost, failed or finished twice; plans torn or mixed up."""
    found: Counter[str] = Counter()
    found["not ended"] = len(client.accepted.keys() - client.ended.keys())
    found["failed"] = sum(own["state"] != "succeeded" for own in client.ended.values())
    database = Database(store)
    with database.reading() as connection:
        known = set(connection.execute(select(JobRow.id)).scalars())
        found["lost"] = len(client.accepted.keys() - known)
        ends = select(JobEventRow.job, JobEventRow.body)
        final = Counter(
            row.job
            for row in connection.execute(ends)
            if row.body.get("state") in ("succeeded", "failed", "cancelled")
        )
        found["finished twice"] = sum(count > 1 for count in final.values())
        graphs = {Graph.from_dict(asked(name)["graph"]).id: job
                  for job, name in client.accepted.items()}  # fmt: skip
        found["torn"], found["of another job"] = _bad_plans(connection, graphs, client)
        found["two of one request"] = sum(
            count > 1
            for (count,) in connection.execute(
                select(func.count()).select_from(JobRow).group_by(JobRow.request)
            )
        )
        if database.dialect == "sqlite":
            sound = connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
            found["damage of the store"] = int(not sound)
    database.close()
    return dict(found)


def _bad_plans(connection: Any, graphs: dict[str, str], client: Client) -> tuple[int, int]:
    torn = strange = 0
    for id_, job in client.ended.items():
        if job["state"] != "succeeded":
            continue
        try:
            plan = Plan.from_json(documents.read(connection, DEFAULT, "plan", job["plan"]))
            torn += plan.id != job["plan"]
            strange += graphs.get(plan.graph) != id_
        except (MeshwrightError, ZstdError):
            torn += 1
    return torn, strange


def run(
    kills: int, *, database: str | None, own_postgresql: bool, seed: int, pause_s: float
) -> dict[str, Any]:
    """All faults in one run; what was done and what came of it."""
    random = Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshwright-faults-")))
        folder.chmod(0o755)
        clock = Clock(folder)
        disk, server, store = _store(stack, folder, clock, database, own_postgresql=own_postgresql)
        opened = Database(store)
        opened.upgrade()
        opened.close()
        service = Service(store, folder, clock, workers=2)
        stack.callback(service.end)
        client = Client(service.url)
        thread = threading.Thread(target=client.run, daemon=True)
        thread.start()
        done = _faults(service, client, random, kills, pause_s, clock, disk, server)
        clock.set(0)
        client.wanted = False
        thread.join(timeout=END_S)
        if thread.is_alive():
            say(service.said())
        service.end()
        attempts = Counter(job["attempt"] for job in client.ended.values())
        return {
            "store": "PostgreSQL" if store.startswith("postgresql") else "SQLite",
            "faults": dict(done),
            "accepted": len(client.accepted),
            "attempts": dict(sorted(attempts.items())),
            "longest_s": client.longest_s,
            "wrongs": wrongs(store, client),
        }


def _store(
    stack: ExitStack, folder: Path, clock: Clock, database: str | None, *, own_postgresql: bool
) -> tuple[SmallDisk | None, PostgreSQL | None, str]:
    if database is not None:
        return None, None, database
    data = folder / "store"
    data.mkdir()
    disk = None
    if os.geteuid() == 0:
        try:
            disk = SmallDisk(data, DISK_BYTES)
            stack.callback(disk.unmount)
        except OSError as why:
            say(f"no small disk here ({why}): none is filled")
    if not own_postgresql:
        return disk, None, f"sqlite:///{data / 'meshwright.db'}"
    server = stack.enter_context(running(data, clock.environment))
    return disk, server, server.url(server.create())


def _faults(
    service: Service, client: Client, random: Random, kills: int, pause_s: float,
    clock: Clock, disk: SmallDisk | None, server: PostgreSQL | None,
) -> Counter[str]:  # fmt: skip
    """Kill so many processes at random moments; every fortieth time something else goes wrong."""
    killers: dict[str, Fault] = {
        "solver": service.kill_solver, "worker": service.kill_worker, "API": service.kill_api,
        "process copied": service.kill_copied,
    }  # fmt: skip
    others: dict[str, Fault] = {
        "frozen worker": service.freeze_worker, "clock moved": clock.jump,
    }  # fmt: skip
    if disk is not None:
        others["full disk"] = lambda _: disk.fill(3)
    if server is not None:
        others["database killed"] = lambda _: _restart(server)
    done: Counter[str] = Counter()
    names = sorted(others)
    while sum(done[name] for name in killers) < kills:
        time.sleep(random.uniform(0, 2 * pause_s))
        name = random.choices(list(KINDS), list(KINDS.values()))[0]
        done[name] += killers[name](random)
        every = max(kills // 20, 1)
        if sum(done.values()) % every == 0 and names:
            name = names[done.total() // every % len(names)]
            done[name] += others[name](random)
        sys.stderr.write(f"\r{dict(done)}, {len(client.ended)} jobs ended")
    sys.stderr.write("\n")
    return done


def _restart(server: PostgreSQL) -> bool:
    server.kill()
    time.sleep(1)
    server.start()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--database", help="SQLAlchemy URL of an empty store, in place of SQLite")
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL of its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.7, help="mean seconds between two faults")
    given = parser.parse_args()
    end_in_order()
    found = run(
        given.kills, database=given.database, own_postgresql=given.postgresql, seed=given.seed,
        pause_s=given.pause,
    )  # fmt: skip
    say(f"| {found['store']} | |")
    say("| --- | --- |")
    for name, count in found["faults"].items():
        say(f"| killed or done to it: {name} | {count} |")
    say(f"| jobs accepted | {found['accepted']} |")
    for attempts, count in found["attempts"].items():
        say(f"| succeeded at attempt {attempts} | {count} |")
    say(f"| longest wait for an answer of the API | {found['longest_s']:.1f} s |")
    for name, count in found["wrongs"].items():
        say(f"| {name} | {count} |")
    sys.exit(any(found["wrongs"].values()))


if __name__ == "__main__":
    main()
