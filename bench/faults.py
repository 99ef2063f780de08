"""`python -m bench.faults --kills N [--database URL | --postgresql]`: what faults cost.

An API, two workers and their solvers on one store; two tenants, each a client with a key that
submits jobs, waits for their plans and asks for what the other has. Meanwhile processes are killed
with SIGKILL at random moments, workers are frozen until their lease is over and wake up, the clock
jumps by up to a day (libfaketime), the disk of the store is full (as root, on a tmpfs), and with
--postgresql the database is killed and restarted. In the end: every accepted job has ended, and
succeeded, once; every plan is whole and of its job; no tenant was answered what is another's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import func, select, text
from zstandard import ZstdError

from bench.ending import measured
from bench.faulty_client import ENDS, Client
from bench.faulty_service import Clock, Fault, Service, SmallDisk
from bench.postgresql import PostgreSQL, running
from bench.small_net import asked
from bench.timing import say
from meshwright.schema import Graph, MeshwrightError, Plan
from meshwright_service.auth.api_keys import Keys
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.database import Database
from meshwright_service.store.tables import JobEventRow, JobRow

TENANTS = (Tenant("one"), Tenant("other"))
KINDS = {
    "solver": 10,
    "worker": 5,
    "API": 3,
    "process copied": 2,
}  # how often each is killed, in relation
DISK_BYTES = 256 << 20
END_S = 300.0  # by when all jobs have ended after the last fault


def wrongs(store: str, clients: Sequence[Client]) -> dict[str, int]:
    """What must be nothing: jobs lost, failed or finished twice; plans torn or mixed up; what is
    one tenant's in an answer to another."""
    found: Counter[str] = Counter()
    accepted = {job for client in clients for job in client.accepted}
    ended = {job: own for client in clients for job, own in client.ended.items()}
    found["not ended"] = len(accepted - ended.keys())
    found["failed"] = sum(own["state"] != "succeeded" for own in ended.values())
    found["shown to another tenant"] = sum(len(client.shown) for client in clients)
    database = Database(store)
    with database.reading() as connection:
        failed = select(JobRow.trace).where(JobRow.state == "failed")
        for trace in connection.execute(failed).scalars():
            say(f"failed: {trace}")
        rows = connection.execute(select(JobRow.id, JobRow.tenant))
        known = {row.id: row.tenant for row in rows}
        found["lost"] = len(accepted - known.keys())
        found["of another tenant"] = sum(
            known.get(job, client.tenant) != client.tenant
            for client in clients for job in client.accepted
        )  # fmt: skip
        ends = select(JobEventRow.job, JobEventRow.body)
        final = Counter(
            row.job for row in connection.execute(ends) if row.body.get("state") in ENDS
        )
        found["finished twice"] = sum(count > 1 for count in final.values())
        bad = [_bad_plans(connection, client) for client in clients]
        found["torn"], found["of another job"] = (sum(counts) for counts in zip(*bad, strict=True))
        found["two of one request"] = sum(
            count > 1
            for (count,) in connection.execute(
                select(func.count()).select_from(JobRow).group_by(JobRow.tenant, JobRow.request)
            )
        )
        if database.dialect == "sqlite":
            sound = connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
            found["damage of the store"] = int(not sound)
    database.close()
    return dict(found)


def _bad_plans(connection: Any, client: Client) -> tuple[int, int]:
    graphs = {Graph.from_dict(asked(name)["graph"]).id: job
              for job, name in client.accepted.items()}  # fmt: skip
    torn = strange = 0
    for id_, job in client.ended.items():
        if job["state"] != "succeeded":
            continue
        try:
            plan = Plan.from_json(documents.read(connection, client.tenant, "plan", job["plan"]))
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
        secrets = _keys(store)
        service = Service(store, folder, clock, workers=2)
        stack.callback(service.end)
        clients = [Client(service.url, tenant, secret) for tenant, secret in secrets.items()]
        threads = []
        for client in clients:
            client.others = [other for other in clients if other is not client]
            threads.append(threading.Thread(target=client.run, daemon=True))
            threads[-1].start()
        done = _faults(service, clients, random, kills, pause_s, clock, disk, server)
        clock.set(0)
        for client in clients:
            client.wanted = False
        ends_by = time.monotonic() + END_S
        for thread in threads:
            thread.join(timeout=max(ends_by - time.monotonic(), 0))
        if any(thread.is_alive() for thread in threads):
            say(service.said())
        service.end()
        attempts = Counter(job["attempt"] for client in clients for job in client.ended.values())
        for client in clients:
            for path in client.shown:
                say(f"shown to {client.tenant}: {path}")
        return {
            "store": "PostgreSQL" if store.startswith("postgresql") else "SQLite",
            "faults": dict(done),
            "accepted": sum(len(client.accepted) for client in clients),
            "attempts": dict(sorted(attempts.items())),
            "refused": sum(client.refused for client in clients),
            "longest_s": max(client.longest_s for client in clients),
            "wrongs": wrongs(store, clients),
        }


def _keys(store: str) -> dict[Tenant, str]:
    """Bring a store up to date; a secret for each of its tenants."""
    database = Database(store)
    database.upgrade()
    keys = Keys(database)
    made = {
        tenant: keys.create(tenant, name="faults", scopes=("read", "plan"))[1] for tenant in TENANTS
    }
    database.close()
    return made


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
    service: Service, clients: Sequence[Client], random: Random, kills: int, pause_s: float,
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
        sys.stderr.write(f"\r{dict(done)}, {sum(len(own.ended) for own in clients)} ended")
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
    say(f"| asked for what is another tenant's: there is no such thing | {found['refused']} |")
    say(f"| longest wait for an answer of the API | {found['longest_s']:.1f} s |")
    for name, count in found["wrongs"].items():
        say(f"| {name} | {count} |")
    sys.exit(any(found["wrongs"].values()))


if __name__ == "__main__":
    measured(main)
