"""JSON models of the API that are not documents: jobs, list entries, pages."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from sqlalchemy import Row

from meshwright.schema import Certificate, Infeasible, Progress
from meshwright.schema.agent import Agent, Measure
from meshwright.schema.cost_graph import CostGraphProgress
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.sweep import Sweep, SweepRow
from meshwright.schema.target import Target
from meshwright_service.common.clock import time_of
from meshwright_service.jobs.agents import AgentRecord
from meshwright_service.jobs.kinds import JobKind
from meshwright_service.store.documents import Entry
from meshwright_service.store.observations import ObservationEntry

Outcome = Literal["optimal", "feasible", "infeasible", "unknown"]
JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class JobResource(BaseModel):
    """A job: a search, a solve or a measurement, and its results.

    kind: a job of kind `solution` has a `cost_graph` and, once answered, a `solution`; its progress
    counts costs without a unit. A measurement has no `graph`; once it has succeeded it has a
    `topology`, `samples` and a `calibration`.
    plan, outcome: present once the search has a plan.
    calibration: of a search, the stored calibration that it uses; None for that of the planner.
    worker: the current or last worker; for a measurement the id of the agent.
    key, key_name: the key of the request; None without keys.
    seconds: time from the start to each entry of the plan's `search.history`.
    ended_early: the search was cancelled, lost or exceeded a limit; the plan is its best one.
    problem: the reason of a failure or, beside a plan, of an early end.
    certificate: the result of executing the plan. A job whose plan is wrong has succeeded; read the
    outcome of the certificate.
    """

    id: str
    state: JobState
    kind: JobKind = "plan"
    request: str
    graph: str | None = None
    graph_name: str | None = None
    cost_graph: str | None = None
    cost_graph_name: str | None = None
    topology: str | None = None
    topology_name: str | None = None
    key: str | None = None
    key_name: str | None = None
    attempt: int
    worker: str | None = None
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    progress: Progress | CostGraphProgress | None = None
    outcome: Outcome | None = None
    plan: str | None = None
    solution: str | None = None
    seconds: tuple[float, ...] | None = None
    ended_early: bool = False
    verify: bool = False
    certificate: Certificate | None = None
    infeasible: Infeasible | None = None
    samples: str | None = None
    calibration: str | None = None
    problem: dict[str, Any] | None = None


class JobList(BaseModel):
    """A page of jobs."""

    jobs: tuple[JobResource, ...]
    next_page_token: str | None = None


class DocumentEntry(BaseModel):
    """A stored document in a list."""

    id: str
    name: str
    created_at: str
    content_bytes: int
    summary: dict[str, Any]


class GraphList(BaseModel):
    """A page of graphs."""

    graphs: tuple[DocumentEntry, ...]
    next_page_token: str | None = None


class CostGraphList(BaseModel):
    """A page of cost graphs."""

    cost_graphs: tuple[DocumentEntry, ...]
    next_page_token: str | None = None


class TopologyList(BaseModel):
    """A page of topologies."""

    topologies: tuple[DocumentEntry, ...]
    next_page_token: str | None = None


class CalibrationEntry(DocumentEntry):
    """A calibration in a list. topologies: those in which it, or its anchor, was measured."""

    topologies: tuple[str, ...] = ()


class CalibrationList(BaseModel):
    """A page of calibrations."""

    calibrations: tuple[CalibrationEntry, ...]
    next_page_token: str | None = None


class SamplesList(BaseModel):
    """A page of samples."""

    samples: tuple[DocumentEntry, ...]
    next_page_token: str | None = None


class Measured(BaseModel):
    """The answer to samples: their id, and the ids of their topology and calibration.

    median_error: relative error of the times that the calibration predicts for the samples.
    """

    id: str
    topology: str
    calibration: str
    median_error: float


class Registered(BaseModel):
    """The answer to a registration.

    heartbeat_s: interval of heartbeats, with or without a lease.
    """

    id: str
    heartbeat_s: float


class AgentEntry(BaseModel):
    """An agent and its state. measuring: the job that it has leased. calibration: the result of its
    last measurement, which ended at `measured_at`."""

    id: str
    state: Literal["alive", "silent"]
    created_at: str
    heard_at: str
    measuring: str | None = None
    calibration: str | None = None
    measured_at: str | None = None
    agent: Agent


class AgentList(BaseModel):
    """A page of agents."""

    agents: tuple[AgentEntry, ...]
    next_page_token: str | None = None


class MeasurementLease(BaseModel):
    """A measurement leased to an agent for `lease_s`; each heartbeat renews the lease."""

    id: str
    attempt: int
    lease_s: float
    asked: Measure


class LeaseAnswer(BaseModel):
    """The answer to a lease request; without a measurement after the wait."""

    measurement: MeasurementLease | None = None


class HeartbeatAnswer(BaseModel):
    """The answer to a heartbeat. holds: whether the agent still has the lease; without it the agent
    ends the measurement and stores nothing."""

    holds: bool


class ResultsAnswer(BaseModel):
    """The answer to results. stored: present if samples were sent."""

    job: str
    stored: Measured | None = None


class Observed(BaseModel):
    """The answer to an observation.

    ratio: measured over predicted step time. calibration: that of the plan, corrected by `anchor`.
    anchor: the median ratio of all `observations` of the stack.
    """

    id: str
    ratio: float
    calibration: str
    anchor: float
    observations: int


class ObservationList(BaseModel):
    """A page of observations."""

    observations: tuple[ObservationEntry, ...]
    next_page_token: str | None = None


class PlanEntry(BaseModel):
    """A plan in a list. key, key_name: the key of its first request; None without keys.

    gap: of the objective, over the meshes of the search. step_gap: of the step, over every
    configuration that the request allows; None if no bound is proved.

    warnings: codes of the plan's warnings; figures: throughput and degrees. differs_in: the options
    that the request states and not all plans of the graph do. They are empty for plans that earlier
    versions stored.
    """

    id: str
    name: str
    graph: str
    topology: str
    topology_name: str = ""
    setup: str
    created_at: str
    meshes: tuple[dict[str, int], ...]
    step_ns: float
    compute_ns: float
    memory_bytes: int
    capacity_bytes: int
    outcome: Literal["optimal", "feasible"]
    solver: str
    lower_bound_ns: float
    gap: float
    step_gap: float | None = None
    warnings: tuple[str, ...] = ()
    target: Target | None = None
    figures: PlanFigures | None = None
    differs_in: str = ""
    certificate: Literal["verified", "failed", "not verifiable"] | None = None
    labels: tuple[str, ...] = ()
    key: str | None = None
    key_name: str | None = None


class PlanPointEntry(BaseModel):
    """The figures of a plan in a chart; None where they are unknown."""

    id: str
    name: str
    topology_name: str
    step_ns: float | None = None
    headroom: float | None = None
    devices: float | None = None
    batch: float | None = None
    units_per_s: float | None = None
    device_rate: float | None = None
    utilization: float | None = None


class PlanPointList(BaseModel):
    """The newest plans of a filter as points. total: the number of all plans of the filter."""

    points: tuple[PlanPointEntry, ...]
    total: int


class PlanLabels(BaseModel):
    """The labels of a plan."""

    plan: str
    labels: tuple[str, ...]


class PlanList(BaseModel):
    """A page of plans."""

    plans: tuple[PlanEntry, ...]
    next_page_token: str | None = None


class SweepEntry(BaseModel):
    """A sweep in a list. done: the number of points whose answer is final."""

    id: str
    name: str
    state: Literal["running", "done", "cancelled"]
    graph: str
    graph_name: str
    created_at: str
    key: str | None = None
    key_name: str | None = None
    done: int
    points: int


class SweepResource(SweepEntry):
    """A sweep with its rows. sweep: the request, with documents by id."""

    sweep: Sweep
    rows: tuple[SweepRow, ...]


class SweepList(BaseModel):
    """A page of sweeps."""

    sweeps: tuple[SweepEntry, ...]
    next_page_token: str | None = None


class UploadAnswer(BaseModel):
    """The answer to an upload."""

    id: str
    name: str
    summary: dict[str, Any]


def job_of(row: Row[Any]) -> JobResource:
    """The API's representation of a job."""
    return JobResource(
        id=row.id,
        state=row.state,
        kind=row.kind,
        worker=row.worker,
        samples=row.samples,
        calibration=row.calibration,
        request=row.request,
        graph=row.graph,
        graph_name=row.graph_name,
        cost_graph=row.cost_graph,
        cost_graph_name=row.cost_graph_name,
        topology=row.topology,
        topology_name=row.topology_name,
        key=row.key,
        key_name=row.key_name,
        attempt=row.attempt,
        created_at=time_of(row.created),
        started_at=row.started and time_of(row.started),
        finished_at=row.finished and time_of(row.finished),
        progress=row.progress,
        outcome=row.outcome,
        plan=row.plan,
        solution=row.solution,
        seconds=row.seconds,
        ended_early=row.ended_early,
        verify=row.verify,
        certificate=row.certificate,
        infeasible=row.infeasible,
        problem=row.problem and {**row.problem, "instance": f"/v1/jobs/{row.id}"},
    )


def agent_of(record: AgentRecord) -> AgentEntry:
    """The API's representation of an agent."""
    return AgentEntry(
        id=record.agent.id,
        state="alive" if record.is_alive else "silent",
        created_at=time_of(record.created),
        heard_at=time_of(record.heard),
        measuring=record.measuring,
        calibration=record.calibration,
        measured_at=time_if(record.measured),
        agent=record.agent,
    )


def entry_of(entry: Entry) -> DocumentEntry:
    """The API's representation of a document in a list."""
    return DocumentEntry(
        id=entry.id,
        name=entry.name,
        created_at=time_of(entry.created),
        content_bytes=entry.content_bytes,
        summary=entry.summary,
    )


def plan_entry_of(summary: dict[str, Any]) -> PlanEntry:
    """The API's representation of a plan in a list."""
    return PlanEntry(created_at=time_of(summary["created"]), **summary)


def time_if(seconds: float | None) -> str | None:
    """Seconds since 1970 as RFC 3339 text, or None."""
    return None if seconds is None else time_of(seconds)
