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

from meshwright.schema import NotFound
from meshwright.schema.agent import Agent
from service.clock import is_ahead
from service.database import Database
from service.inserting import insert_new
from service.paging import Page, PageRequest, read_page
from service.tables import AgentRow, JobRow

MEASUREMENTS = JobRow.kind == "measurement"


@dataclass(frozen=True, slots=True)
class Heard:
    """An agent as the store has it. measuring: the job that it has a lease of."""

    agent: Agent
    created: float
    heard: float
    is_alive: bool
    measuring: str | None


class Agents:
    """The agents of one database. One is alive until nothing was heard of it for `silent_s`."""

    def __init__(self, database: Database, *, silent_s: float = 60) -> None:
        self._database = database
        self.silent_s = silent_s

    def register(self, agent: Agent) -> bool:
        """Keep an agent, heard of now; False where it was known."""
        with self._database.writing() as connection:
            if self._hear(connection, agent.id):
                return False
            return insert_new(
                connection,
                AgentRow,
                id=agent.id,
                created=self._database.now,
                heard=self._database.now,
                backend=agent.backend,
                body=agent.to_dict(),
            )

    def hear(self, agent: str) -> Agent:
        """Note a sign of life; NotFound of an agent that nobody registered."""
        with self._database.writing() as connection:
            if not self._hear(connection, agent):
                raise _unknown(agent)
            body = connection.execute(select(AgentRow.body).where(AgentRow.id == agent)).scalar()
        return Agent.from_dict(body or {})

    def get(self, agent: str) -> Heard:
        """One agent; NotFound where there is none."""
        with self._database.reading() as connection:
            row = connection.execute(self._rows().where(AgentRow.id == agent)).first()
        if row is None:
            raise _unknown(agent)
        return _heard(row)

    def list(self, page: PageRequest) -> Page[Heard]:
        """Agents, the newest first."""
        with self._database.reading() as connection:
            rows, token = read_page(connection, self._rows(), AgentRow.created, AgentRow.id, page)
        return Page(tuple(map(_heard, rows)), token)

    def has_one(self, connection: Connection, *, agent: str | None, backend: str | None) -> bool:
        """Whether one is alive that a measurement of this agent, or backend, or any, could have."""
        statement = select(AgentRow.id).where(self.alive())
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
        could = takes(AgentRow.id, AgentRow.backend)
        return and_(MEASUREMENTS, ~exists().where(self.alive(), could).correlate(JobRow))

    def _hear(self, connection: Connection, agent: str) -> bool:
        now = self._database.now
        heard = update(AgentRow).where(AgentRow.id == agent).values(heard=now)
        return bool(connection.execute(heard).rowcount)

    def _rows(self) -> Select[Any]:
        measuring = (
            select(JobRow.id)
            .where(
                MEASUREMENTS,
                JobRow.state == "running",
                JobRow.worker == AgentRow.id,
                JobRow.lease_until > self._database.now,
            )
            .limit(1)
            .scalar_subquery()
        )
        return select(
            AgentRow.body,
            AgentRow.created,
            AgentRow.heard,
            self.alive().label("is_alive"),
            measuring.label("measuring"),
        )


def takes(
    agent: str | InstrumentedAttribute[str], backend: str | InstrumentedAttribute[str]
) -> ColumnElement[bool]:
    """Of jobs: a measurement that this agent may take."""
    return and_(
        MEASUREMENTS,
        or_(JobRow.agent.is_(None), JobRow.agent == agent),
        or_(JobRow.backend.is_(None), JobRow.backend == backend),
    )


def _heard(row: Row[Any]) -> Heard:
    return Heard(
        Agent.from_dict(row.body), row.created, row.heard, bool(row.is_alive), row.measuring
    )


def _unknown(agent: str) -> NotFound:
    return NotFound(f"no agent has the id {agent[:100]!r}")
