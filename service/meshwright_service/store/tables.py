"""The tables of the store.

Documents are immutable. Each state change of a job is one guarded UPDATE. The bytes of a document
are stored once for all tenants; all other rows belong to one tenant, and queries read only the rows
of their tenant.
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
# constraint names for migrations, equal on all databases
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
    """An API key with the digest of its secret.

    A revoked key stays, so that a store with keys never opens again. prefix: of the secret, for
    look-up. used: approximate time of the last use. served: start of its last job.
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

    created: time of the first storage, which is not shown to tenants.
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
    """A part of a derived document; see meshwright_service.store.derived_documents."""

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
    """A document of a tenant. created: time of its storage by the tenant."""

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
    """A topology in which a calibration was measured; the topology itself may be deleted."""

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
    """The columns of a plan for lists and filters.

    model: the name of its graph. solver: the requested search. key: the key of the first request;
    keys are revoked, but never deleted. step_ns to utilization: figures that lists are sorted and
    filtered by (`meshwright.schema.plan_figures`), None in plans of earlier versions. headroom: the
    free share of the device memory. units_per_s: tokens per second, or samples without sequences.
    device_rate: the same for one device. options: canonical JSON of the options that the request
    states (`meshwright.reports.stated_options`), None in plans of earlier versions.
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
    step_ns: Mapped[float | None] = mapped_column(Float(53))
    headroom: Mapped[float | None] = mapped_column(Float(53))
    devices: Mapped[float | None] = mapped_column(Float(53))
    batch: Mapped[float | None] = mapped_column(Float(53))
    units_per_s: Mapped[float | None] = mapped_column(Float(53))
    device_rate: Mapped[float | None] = mapped_column(Float(53))
    utilization: Mapped[float | None] = mapped_column(Float(53))
    target: Mapped[str] = mapped_column(String(40), server_default="")
    options: Mapped[str | None] = mapped_column(Text)


class SweepRecord(Base):
    """A sweep. id: the digest of its body and of the planner.

    body: the sweep, with documents by id. points: by place, the `point`, the id of its `job`,
    whether the sweep `queued` that job, and the `problem` of a point that is not valid.
    """

    __tablename__ = "sweeps"
    __table_args__ = (
        Index("sweeps_by_age", "tenant", "created", "id"),
        Index("sweeps_of_graph", "graph"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    key: Mapped[str | None] = mapped_column(ID, ForeignKey("keys.id"))
    created: Mapped[float] = mapped_column(Float(53))
    cancelled: Mapped[float | None] = mapped_column(Float(53))
    graph: Mapped[str] = mapped_column(ID, ForeignKey("documents.id"))
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    points: Mapped[list[dict[str, Any]]] = mapped_column(JSON)


class LabelRow(Base):
    """A label of a plan."""

    __tablename__ = "labels"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "plan"], ["plans.tenant", "plans.id"], ondelete="CASCADE"),
        Index("labels_by_label", "tenant", "label", "plan"),
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    plan: Mapped[str] = mapped_column(ID, primary_key=True)
    label: Mapped[str] = mapped_column(String(64), primary_key=True)


class CertificateRow(Base):
    """The certificate of a plan, from its execution."""

    __tablename__ = "certificates"
    __table_args__ = (ForeignKeyConstraint(["tenant", "plan"], ["plans.tenant", "plans.id"]),)

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    plan: Mapped[str] = mapped_column(ID, primary_key=True)
    id: Mapped[str] = mapped_column(ID)
    created: Mapped[float] = mapped_column(Float(53))
    outcome: Mapped[str] = mapped_column(String(16))
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class ObservationRow(Base):
    """A step time that a training job reported. ratio: measured over predicted step time."""

    __tablename__ = "observations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "plan"], ["plans.tenant", "plans.id"]),
        Index("observations_by_plan", "tenant", "plan", "created", "id"),
        Index("observations_by_calibration", "tenant", "calibration", "topology", "created"),
        Index("observations_by_topology", "tenant", "topology", "created", "id"),
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
    """An agent. heard: time of its last heartbeat. key: the key that registered it."""

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
    """A job: a search, a verification, a solve or a measurement.

    attempt: the fencing token; the holder of an older attempt cannot write.
    key: the key of the request; None without keys.
    kind: see meshwright_service.jobs.kinds.
    agent, backend: who may take a measurement; None for any.
    cost_graph, solution: of a job that solves a cost graph.
    request: the digest of the request and of the planner's build. inputs: the digest of the request
    alone, by which answers of other builds are found; None for a measurement.
    asked: the options of the request, which name documents.
    losses, lapses: attempts that ended without an answer, see meshwright_service.jobs.losses.
    yields: attempts that gave way to another tenant's job.
    paused_until: earliest start of the next attempt.
    verify: whether the plan is to be executed. An open job with a plan only verifies it.
    lease_until: for a cancelled job, the time until which its worker may store a plan.
    seconds, ended_early: of the search, as in `Answer`.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "agent"], ["agents.tenant", "agents.id"]),
        Index("jobs_by_age", "tenant", "created", "id"),
        Index("jobs_by_state", "tenant", "state", "created", "id"),
        Index("jobs_by_request", "tenant", "request", "created"),
        Index("jobs_by_inputs", "inputs", "tenant", "created"),
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
    inputs: Mapped[str | None] = mapped_column(ID)
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
    """An event of a job; `seq` orders them."""

    __tablename__ = "job_events"

    job: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[float] = mapped_column(Float(53))
    attempt: Mapped[int] = mapped_column(Integer)
    body: Mapped[dict[str, Any]] = mapped_column(JSON)


class KeptRow(Base):
    """The incumbent plan of a job; see meshwright_service.jobs.incumbent_plans.

    at: time of its storage. about: fields of its document, and columns of its row in the plan
    index. body: the compressed document.
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
    """A periodic task that one process of a store does at a time. done: its last start."""

    __tablename__ = "chores"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    done: Mapped[float] = mapped_column(Float(53))


class IdempotencyRow(Base):
    """An idempotency key and its job. digest: of the request."""

    __tablename__ = "idempotency"
    __table_args__ = (
        Index("idempotency_by_age", "tenant", "created"),
        Index("idempotency_by_job", "job"),  # for deletions of jobs
    )

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    job: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id", ondelete="CASCADE"))
    created: Mapped[float] = mapped_column(Float(53))
