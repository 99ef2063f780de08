"""Agents: their registration, their heartbeats, and the measurements that each may claim."""

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
from meshwright_service.auth.api_keys import is_ended
from meshwright_service.auth.principals import Principal
from meshwright_service.common.clock import is_ahead
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.kinds import FOR_AGENTS
from meshwright_service.store.database import Database
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.tables import AgentRow, JobRow, KeyRow


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent as stored.

    heard: time of its last heartbeat. measuring: the job that it has leased. calibration: the
    result of its last measurement, which ended at `measured`.
    """

    agent: Agent
    created: float
    heard: float
    is_alive: bool
    measuring: str | None
    calibration: str | None
    measured: float | None


class Agents:
    """The agents of one database. An agent is alive for `silent_s` after its last heartbeat.

    An agent belongs to the key that registered it; other keys cannot use it.
    """

    def __init__(self, database: Database, *, silent_s: float = 60) -> None:
        self._database = database
        self.silent_s = silent_s

    def register(self, by: Principal, agent: Agent) -> bool:
        """Register an agent and record a heartbeat; False if it was registered before.

        An agent without a key, or whose key has ended, passes to the caller's key. Raises Forbidden
        for an agent of another key.
        """
        with self._database.writing() as connection:
            key_has_ended = select(KeyRow.id).where(
                KeyRow.id == AgentRow.key, is_ended(self._database.now)
            )
            may_take_over = or_(AgentRow.key.is_(None), key_has_ended.exists())
            connection.execute(
                update(AgentRow).where(_is(by.tenant, agent.id), may_take_over).values(key=by.key)
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
                raise _belongs_to_another_key(agent.id)
            return new

    def hear(self, by: Principal, agent: str) -> Agent:
        """Record a heartbeat; raises NotFound for an unknown agent, Forbidden for another key's."""
        with self._database.writing() as connection:
            heard = self._hear(connection, by, agent)
            of = select(AgentRow.body).where(_is(by.tenant, agent))
            body = connection.execute(of).scalar()
        if body is None:
            raise _unknown(agent)
        if not heard:
            raise _belongs_to_another_key(agent)
        return Agent.from_dict(body)

    def get(self, tenant: Tenant, agent: str) -> AgentRecord:
        """One agent; raises NotFound for an unknown id."""
        with self._database.reading() as connection:
            row = connection.execute(self._rows().where(_is(tenant, agent))).first()
        if row is None:
            raise _unknown(agent)
        return _record(row)

    def list(self, tenant: Tenant, page: PageRequest) -> Page[AgentRecord]:
        """Agents, newest first."""
        statement = self._rows().where(AgentRow.tenant == tenant)
        with self._database.reading() as connection:
            rows, token = read_page(connection, statement, AgentRow.created, AgentRow.id, page)
        return Page(tuple(map(_record, rows)), token)

    def has_one(
        self, connection: Connection, tenant: Tenant, *, agent: str | None, backend: str | None
    ) -> bool:
        """Whether an agent is alive that could take a measurement for this agent and backend."""
        statement = select(AgentRow.id).where(AgentRow.tenant == tenant, self.alive())
        if agent is not None:
            statement = statement.where(AgentRow.id == agent)
        if backend is not None:
            statement = statement.where(AgentRow.backend == backend)
        return connection.execute(statement.limit(1)).first() is not None

    def alive(self) -> ColumnElement[bool]:
        """SQL condition on an agent: its last heartbeat is recent."""
        return is_ahead(AgentRow.heard, self._database.now - self.silent_s, self.silent_s)

    def has_no_agent(self) -> ColumnElement[bool]:
        """SQL condition on a job: a measurement that no live agent can take."""
        could = takes(AgentRow.tenant, AgentRow.id, AgentRow.backend)
        return and_(FOR_AGENTS, ~exists().where(self.alive(), could).correlate(JobRow))

    def _hear(self, connection: Connection, by: Principal, agent: str) -> bool:
        mine = and_(_is(by.tenant, agent), AgentRow.key.is_not_distinct_from(by.key))
        heard = update(AgentRow).where(mine).values(heard=self._database.now)
        return bool(connection.execute(heard).rowcount)

    def _rows(self) -> Select[Any]:
        of_agent = and_(FOR_AGENTS, JobRow.tenant == AgentRow.tenant, JobRow.worker == AgentRow.id)
        running = and_(of_agent, JobRow.state == "running", JobRow.lease_until > self._database.now)
        measuring = select(JobRow.id).where(running).limit(1).scalar_subquery()
        newest = and_(of_agent, JobRow.state == "succeeded")
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
    """SQL condition on a job: a measurement that this agent may take."""
    return and_(
        FOR_AGENTS,
        JobRow.tenant == tenant,
        or_(JobRow.agent.is_(None), JobRow.agent == agent),
        or_(JobRow.backend.is_(None), JobRow.backend == backend),
    )


def _record(row: Row[Any]) -> AgentRecord:
    return AgentRecord(
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


def _belongs_to_another_key(agent: str) -> Forbidden:
    return Forbidden(
        f"another key of your tenant registered {agent[:100]!r}. Use that key, or revoke it and "
        "register the agent again"
    )


def _unknown(agent: str) -> NotFound:
    return NotFound(f"no agent has the id {agent[:100]!r}")
