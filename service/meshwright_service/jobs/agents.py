"""Agents of the store: registered, heard of, silent; and which of them may take a measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    exists,
    or_,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute

from meshwright.schema import Forbidden, NotFound
from meshwright.schema.agent import Agent
from meshwright_service.auth.api_keys import ended
from meshwright_service.auth.principals import Principal
from meshwright_service.common.clock import is_ahead
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.kinds import FOR_AGENTS
from meshwright_service.store.database import Database
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.tables import AgentRow, JobRow, KeyRow


@dataclass(frozen=True, slots=True)
class Heard:
    """An agent as the store has it. measuring: the job that it has a lease of. calibration: what
    came of its last measurement, which ended at `measured`."""

    agent: Agent
    created: float
    heard: float
    is_alive: bool
    measuring: str | None
    calibration: str | None
    measured: float | None


class Agents:
    """The agents of one database. One is alive until nothing was heard of it for `silent_s`.

    It belongs to the key that registered it, and answers to no other.
    """

    def __init__(self, database: Database, *, silent_s: float = 60) -> None:
        self._database = database
        self.silent_s = silent_s

    def register(self, by: Principal, agent: Agent) -> bool:
        """Keep an agent, heard of now; False where it was known. Forbidden: it is another key's.

        Where that key has ended, or there was none, it is the new one's from now on.
        """
        with self._database.writing() as connection:
            over = select(KeyRow.id).where(KeyRow.id == AgentRow.key, ended(self._database.now))
            free = or_(AgentRow.key.is_(None), over.exists())
            connection.execute(
                update(AgentRow).where(_is(by.tenant, agent.id), free).values(key=by.key)
            )
            if self._hear(connection, by, agent.id):
                return False
            new = insert_new(
                connection,
                AgentRow,
                tenant=by.tenant,
                key=by.key,
                id=agent.id,
                created=self._database.now,
                heard=self._database.now,
                backend=agent.backend,
                body=agent.to_dict(),
            )
            if not new and not self._hear(connection, by, agent.id):
                raise _others(agent.id)
            return new

    def hear(self, by: Principal, agent: str) -> Agent:
        """Note a sign of life; NotFound of an unregistered agent, Forbidden of another key's."""
        with self._database.writing() as connection:
            heard = self._hear(connection, by, agent)
            of = select(AgentRow.body).where(_is(by.tenant, agent))
            body = connection.execute(of).scalar()
        if body is None:
            raise _unknown(agent)
        if not heard:
            raise _others(agent)
        return Agent.from_dict(body)

    def get(self, tenant: Tenant, agent: str) -> Heard:
        """One agent; NotFound where there is none."""
        with self._database.reading() as connection:
            row = connection.execute(self._rows().where(_is(tenant, agent))).first()
        if row is None:
            raise _unknown(agent)
        return _heard(row)

    def list(self, tenant: Tenant, page: PageRequest) -> Page[Heard]:
        """Agents, the newest first."""
        statement = self._rows().where(AgentRow.tenant == tenant)
        with self._database.reading() as connection:
            rows, token = read_page(connection, statement, AgentRow.created, AgentRow.id, page)
        return Page(tuple(map(_heard, rows)), token)

    def has_one(
        self, connection: Connection, tenant: Tenant, *, agent: str | None, backend: str | None
    ) -> bool:
        """Whether one is alive that a measurement of this agent, or backend, or any, could have."""
        statement = select(AgentRow.id).where(AgentRow.tenant == tenant, self.alive())
        if agent is not None:
            statement = statement.where(AgentRow.id == agent)
        if backend is not None:
            statement = statement.where(AgentRow.backend == backend)
        return connection.execute(statement.limit(1)).first() is not None

    def alive(self) -> ColumnElement[bool]:
        """Of agents: something was heard of it."""
        return is_ahead(AgentRow.heard, self._database.now - self.silent_s, self.silent_s)

    def left_alone(self) -> ColumnElement[bool]:
        """Of jobs: a measurement that no agent alive could take."""
        could = takes(AgentRow.tenant, AgentRow.id, AgentRow.backend)
        return and_(FOR_AGENTS, ~exists().where(self.alive(), could).correlate(JobRow))

    def _hear(self, connection: Connection, by: Principal, agent: str) -> bool:
        mine = and_(_is(by.tenant, agent), AgentRow.key.is_not_distinct_from(by.key))
        heard = update(AgentRow).where(mine).values(heard=self._database.now)
        return bool(connection.execute(heard).rowcount)

    def _rows(self) -> Select[Any]:
        own = and_(FOR_AGENTS, JobRow.tenant == AgentRow.tenant, JobRow.worker == AgentRow.id)
        running = and_(own, JobRow.state == "running", JobRow.lease_until > self._database.now)
        measuring = select(JobRow.id).where(running).limit(1).scalar_subquery()
        newest = and_(own, JobRow.state == "succeeded")
        calibration, measured = (
            select(column).where(newest).order_by(JobRow.finished.desc(), JobRow.id).limit(1)
            for column in (JobRow.calibration, JobRow.finished)
        )
        return select(
            AgentRow.id,
            AgentRow.body,
            AgentRow.created,
            AgentRow.heard,
            self.alive().label("is_alive"),
            measuring.label("measuring"),
            calibration.scalar_subquery().label("calibration"),
            measured.scalar_subquery().label("measured"),
        )


def takes(
    tenant: Tenant | InstrumentedAttribute[str],
    agent: str | InstrumentedAttribute[str],
    backend: str | InstrumentedAttribute[str],
) -> ColumnElement[bool]:
    """Of jobs: a measurement that this agent may take."""
    return and_(
        FOR_AGENTS,
        JobRow.tenant == tenant,
        or_(JobRow.agent.is_(None), JobRow.agent == agent),
        or_(JobRow.backend.is_(None), JobRow.backend == backend),
    )


def _heard(row: Row[Any]) -> Heard:
    return Heard(
        Agent.from_dict(row.body),
        row.created,
        row.heard,
        bool(row.is_alive),
        row.measuring,
        row.calibration,
        row.measured,
    )


def _is(tenant: Tenant, agent: str) -> ColumnElement[bool]:
    return and_(AgentRow.tenant == tenant, AgentRow.id == agent)


def _others(agent: str) -> Forbidden:
    return Forbidden(
        f"another key of your tenant registered {agent[:100]!r}; use that one, or revoke it and "
        "register again"
    )


def _unknown(agent: str) -> NotFound:
    return NotFound(f"no agent has the id {agent[:100]!r}")
