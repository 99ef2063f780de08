"""A job table for tests. The clock is a number that they turn."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Float, literal_column, select, text

from meshwright.schema import Graph, Topology
from meshwright_service.auth.principals import ANYBODY
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.jobs.agents import Agents
from meshwright_service.jobs.jobs import Jobs
from meshwright_service.jobs.leases import Claim, Leases
from meshwright_service.jobs.losses import Losses, RetryLimits
from meshwright_service.store import documents
from meshwright_service.store.database import Database
from meshwright_service.store.tables import JobEventRow
from tests.service.samples import GRAPH, TOPOLOGY

TRIES = RetryLimits(max_losses=2, max_lapses=4, retry_s=0)
NOW = literal_column("(SELECT at FROM clock)", Float())


class Table:
    """A job table whose leases last 10 s, and whose searches may be lost twice, their leases four
    times."""

    def __init__(self, store: str) -> None:
        self.database = Database(store, now=NOW)
        self.database.upgrade()
        with self.database.writing() as connection:
            connection.execute(text("CREATE TABLE clock (at FLOAT)"))
            connection.execute(text("INSERT INTO clock VALUES (1000)"))
        self.jobs = Jobs(self.database)
        self.try_jobs(TRIES)

    def try_jobs(self, tries: RetryLimits) -> None:
        """Have jobs tried so often from now on."""
        self.leases = Leases(self.database, lease_s=10, tries=tries)
        self.losses = Losses(self.database, Agents(self.database), tries, lease_s=10)

    def turn_clock(self, seconds: float) -> None:
        with self.database.writing() as connection:
            connection.execute(text("UPDATE clock SET at = at + :by"), {"by": seconds})

    def submit(self, *, verify: bool = False) -> str:
        graph, topology = Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)
        with self.database.writing() as connection:
            for document in (graph, topology):
                documents.put(connection, DEFAULT_TENANT, document, now=self.database.now)
            return self.jobs.submit(
                connection,
                ANYBODY,
                request="request_1",
                inputs="inputs_1",
                graph=graph.id,
                topology=topology.id,
                options={},
                verify=verify,
            )

    def claim(self, worker: str = "w") -> Claim:
        claim = self.leases.claim(worker)
        assert claim is not None
        return claim

    def events(self, job: str) -> list[Any]:
        with self.database.reading() as connection:
            events = select(JobEventRow.body).where(JobEventRow.job == job)
            bodies = connection.execute(events.order_by(JobEventRow.seq)).scalars()
            return [body.get("state") for body in bodies]
