"""The tables. Documents are immutable; jobs change state, each change by one guarded UPDATE.

The bytes of a document are there once, for all tenants; which documents, plans and all else a
tenant has, the rows with its name say. What a tenant may see is asked of those alone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

ID = String(80)
TENANT = String(64)
# names that a later migration can refer to, the same on every database
NAMES = {
    "ix": "%(table_name)s_by_%(column_0_N_name)s",
    "uq": "%(table_name)s_unique_%(column_0_N_name)s",
    "fk": "%(table_name)s_%(column_0_name)s_names_%(referred_table_name)s",
    "pk": "%(table_name)s_key",
}


class Base(DeclarativeBase):
    """The tables of the store."""

    metadata = MetaData(naming_convention=NAMES)


class KeyRow(Base):
    """An API key, without the secret: SHA-256 of it. Kept when revoked: a store stays closed.

    prefix: the first characters of the secret, by which it is found. used: about when, last.
    served: when a worker last began a job of it.
    """

    __tablename__ = "keys"
    __table_args__ = (Index("keys_by_age", "tenant", "created", "id"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    name: Mapped[str] = mapped_column(Text)
    prefix: Mapped[str] = mapped_column(String(16), index=True)
    digest: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[str]] = mapped_column(JSON)
    created: Mapped[float] = mapped_column(Float(53))
    expires: Mapped[float | None] = mapped_column(Float(53))
    used: Mapped[float | None] = mapped_column(Float(53))
    served: Mapped[float | None] = mapped_column(Float(53))
    revoked: Mapped[float | None] = mapped_column(Float(53))


class DocumentRow(Base):
    """A content-addressed document: canonical JSON, compressed with zstd. All tenants share it.

    created: when the first of them stored it, which no other is told.
    """

    __tablename__ = "documents"

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float(53))
    content_bytes: Mapped[int] = mapped_column(Integer)
    summary: Mapped[dict[str, Any]] = mapped_column(JSON)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class DerivedRow(Base):
    """What is worked out for a tenant from a document, in packed parts: see
    meshwright_service.store.derived_documents."""

    __tablename__ = "derived"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "document"], ["holdings.tenant", "holdings.id"], ondelete="CASCADE"
        ),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    document: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(String(80), primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class HoldingRow(Base):
    """A document that a tenant has. created: since when."""

    __tablename__ = "holdings"
    __table_args__ = (
        Index("holdings_by_age", "tenant", "kind", "created", "id"),
        Index("holdings_of_document", "id"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    id: Mapped[str] = mapped_column(ID, ForeignKey("documents.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    created: Mapped[float] = mapped_column(Float(53))


class CalibratedRow(Base):
    """A topology in which a tenant's calibration was measured; the topology itself may be gone."""

    __tablename__ = "calibrated"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "calibration"], ["holdings.tenant", "holdings.id"], ondelete="CASCADE"
        ),
        Index("calibrated_by_calibration", "tenant", "calibration"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    topology: Mapped[str] = mapped_column(ID, primary_key=True)
    calibration: Mapped[str] = mapped_column(ID, primary_key=True)


class PlanRow(Base):
    """What lists and filters of a tenant's plans need of a plan document.

    model: the name of its graph. solver: the search that was asked for. key: of who asked first;
    keys are revoked, never gone.
    """

    __tablename__ = "plans"
    __table_args__ = (
        Index("plans_by_age", "tenant", "created", "id"),
        Index("plans_by_graph", "tenant", "graph", "created", "id"),
        Index("plans_by_topology", "tenant", "topology", "created", "id"),
        Index("plans_by_solver", "tenant", "solver", "created", "id"),
        Index("plans_by_calibration", "tenant", "calibration", "created", "id"),
        Index("plans_of_document", "id"),
        Index("plans_of_graph", "graph"),
        Index("plans_of_topology", "topology"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    id: Mapped[str] = mapped_column(ID, ForeignKey("documents.id"), primary_key=True)
    created: Mapped[float] = mapped_column(Float(53))
    graph: Mapped[str] = mapped_column(ID, ForeignKey("documents.id"))
    topology: Mapped[str] = mapped_column(ID, ForeignKey("documents.id"))
    summary: Mapped[dict[str, Any]] = mapped_column(JSON)
    model: Mapped[str] = mapped_column(Text, server_default="")
    outcome: Mapped[str] = mapped_column(String(16), server_default="")
    solver: Mapped[str] = mapped_column(String(40), server_default="")
    key: Mapped[str | None] = mapped_column(ID)
    calibration: Mapped[str] = mapped_column(ID, server_default="")


class LabelRow(Base):
    """What people call a plan."""

    __tablename__ = "labels"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "plan"], ["plans.tenant", "plans.id"], ondelete="CASCADE"),
        Index("labels_by_label", "tenant", "label", "plan"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    plan: Mapped[str] = mapped_column(ID, primary_key=True)
    label: Mapped[str] = mapped_column(String(64), primary_key=True)


class CertificateRow(Base):
    """What executing a plan showed."""

    __tablename__ = "certificates"
    __table_args__ = (ForeignKeyConstraint(["tenant", "plan"], ["plans.tenant", "plans.id"]),)

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    plan: Mapped[str] = mapped_column(ID, primary_key=True)
    id: Mapped[str] = mapped_column(ID)
    created: Mapped[float] = mapped_column(Float(53))
    outcome: Mapped[str] = mapped_column(String(16))
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class ObservationRow(Base):
    """What a training job measured of a plan. ratio: measured over predicted step."""

    __tablename__ = "observations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "plan"], ["plans.tenant", "plans.id"]),
        Index("observations_by_plan", "tenant", "plan", "created", "id"),
        Index("observations_by_calibration", "tenant", "calibration", "topology", "created"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    plan: Mapped[str] = mapped_column(ID)
    topology: Mapped[str] = mapped_column(ID)
    calibration: Mapped[str] = mapped_column(ID)
    stack: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float(53))
    ratio: Mapped[float] = mapped_column(Float(53))
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class AgentRow(Base):
    """Who can be asked to measure. heard: when it last gave a sign. key: that registered it."""

    __tablename__ = "agents"
    __table_args__ = (Index("agents_by_age", "tenant", "created", "id"),)

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    key: Mapped[str | None] = mapped_column(ID, ForeignKey("keys.id"))
    created: Mapped[float] = mapped_column(Float(53))
    heard: Mapped[float] = mapped_column(Float(53))
    backend: Mapped[str] = mapped_column(String(16))
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class JobRow(Base):
    """A search or a measurement. `attempt` is the fence: who holds an older one may write nothing.

    key: of who asked for it; None without keys.
    kind: see meshwright_service.jobs.kinds. A measurement is for `agent`, one of `backend`, or any.
    cost_graph, solution: of a job that solves a cost graph.
    request: the digest of what was asked; `asked` names the documents.
    losses, lapses: attempts that ended without an answer, see meshwright_service.jobs.losses.
    yields: attempts that gave way to another tenant's job. paused_until: when the next attempt may
    start. verify: the plan is to be executed too. Where a job has a plan and goes on, only that is
    left. lease_until: of a cancelled job, as long as its worker may still store a plan.
    seconds, ended_early: of the search that found the plan, as in an Answer.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "agent"], ["agents.tenant", "agents.id"]),
        Index("jobs_by_age", "tenant", "created", "id"),
        Index("jobs_by_state", "tenant", "state", "created", "id"),
        Index("jobs_by_request", "tenant", "request", "created"),
        Index("jobs_by_kind", "kind", "state", "created", "id"),
        Index("jobs_by_lease", "state", "lease_until"),
        Index("jobs_by_plan", "plan", "tenant", "created", "id"),
        Index("jobs_of_graph", "graph"),
        Index("jobs_of_topology", "topology"),
        Index("jobs_of_samples", "samples"),
        Index("jobs_of_calibration", "calibration"),
        Index("jobs_of_cost_graph", "cost_graph"),
        Index("jobs_of_solution", "solution"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    key: Mapped[str | None] = mapped_column(ID, ForeignKey("keys.id"))
    kind: Mapped[str] = mapped_column(String(16), server_default="plan")
    request: Mapped[str] = mapped_column(ID)
    graph: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))
    topology: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))
    asked: Mapped[dict[str, Any]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int] = mapped_column(Integer)
    losses: Mapped[int] = mapped_column(Integer)
    lapses: Mapped[int] = mapped_column(Integer, server_default="0")
    yields: Mapped[int] = mapped_column(Integer, server_default="0")
    paused_until: Mapped[float | None] = mapped_column(Float(53))
    worker: Mapped[str | None] = mapped_column(String(80))
    lease_until: Mapped[float | None] = mapped_column(Float(53))
    created: Mapped[float] = mapped_column(Float(53))
    started: Mapped[float | None] = mapped_column(Float(53))
    finished: Mapped[float | None] = mapped_column(Float(53))
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    outcome: Mapped[str | None] = mapped_column(String(16))
    plan: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))
    infeasible: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    trace: Mapped[str | None] = mapped_column(Text)
    verify: Mapped[bool] = mapped_column(Boolean, server_default=false())
    certificate: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    seconds: Mapped[list[float] | None] = mapped_column(JSON(none_as_null=True))
    ended_early: Mapped[bool] = mapped_column(Boolean, server_default=false())
    agent: Mapped[str | None] = mapped_column(ID)
    backend: Mapped[str | None] = mapped_column(String(16))
    samples: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))
    calibration: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))
    cost_graph: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))
    solution: Mapped[str | None] = mapped_column(ID, ForeignKey("documents.id"))


class JobEventRow(Base):
    """What happened to a job, in order; for people and for event streams."""

    __tablename__ = "job_events"

    job: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[float] = mapped_column(Float(53))
    attempt: Mapped[int] = mapped_column(Integer)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class KeptRow(Base):
    """The best plan so far of a job's search; see meshwright_service.jobs.incumbent_plans. at: when
    it was kept.

    about, body: of the document that it would be, and the columns of its row among the plans.
    """

    __tablename__ = "kept"

    job: Mapped[str] = mapped_column(
        ID, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer)
    at: Mapped[float] = mapped_column(Float(53))
    seconds: Mapped[list[float]] = mapped_column(JSON)
    about: Mapped[dict[str, Any]] = mapped_column(JSON)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class ChoreRow(Base):
    """What the processes of a store do in turns. done: when one last began to."""

    __tablename__ = "chores"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    done: Mapped[float] = mapped_column(Float(53))


class IdempotencyRow(Base):
    """A key that came with a request, and the job of that request. digest: of the request."""

    __tablename__ = "idempotency"
    __table_args__ = (
        Index("idempotency_by_age", "tenant", "created"),
        Index("idempotency_by_job", "job"),  # what goes with a job that is deleted
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    job: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id", ondelete="CASCADE"))
    created: Mapped[float] = mapped_column(Float(53))
