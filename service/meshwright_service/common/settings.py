"""The settings of the server: environment variables with the prefix MESHWRIGHT_."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from meshwright.common.process_pool import MAX_PROCESSES
from meshwright.schema.canonical import MAX_NESTING
from meshwright.schema.graph import MAX_OPS
from meshwright_service.common.dask_address import Scheduler
from meshwright_service.common.memory_limit import LEAST_MEMORY

DASK_FILES = ("authority", "certificate", "key")
Format = Literal["auto", "json", "text"]


class Settings(BaseSettings):
    """What can be set; docs/service.md explains every one.

    database_url: empty = SQLite in `data_dir`.
    planner: a name in the entry point group `meshwright.planner`, or `module:function`.
    workers: worker loops in this process; each runs one solve at a time.
    search_processes: that one solve for pipelines hands independent searches to; 0 = as many as
        there are cores, eight at the most.
    allowed_hosts: by which the service may be spoken to, beside where it listens; see
        meshwright_service.api.middleware.host_check.
    verifier: the same for what executes plans, in the group `meshwright.verifier`.
    cost_graph_solver: the same for what solves cost graphs, in `meshwright.cost_graph_solver`.
    solve_s: a solve that runs longer is asked for its best plan; where none comes its job fails.
    solve_memory_bytes: a process of a solve that takes more fails the job; 0 = its share of the
        machine, see meshwright_service.common.memory_limit.
    slice_s: that a job runs at least before it gives way to another tenant's, which waits. Chosen:
        most searches take less.
    keep_plan_s: from then on its best plan so far is kept. Chosen: most searches take less.
    solve_grace_s, cancel_grace_s: how long it has for that, and after a cancel. Chosen: writing the
        plan of Llama-3 8B takes a second, several on a busy machine.
    verify_s, verify_memory_bytes: an execution that takes more is ended: not verifiable.
    view_processes, view_s, view_memory_bytes: that simulate steps at one time, and
        what each may take.
    explain_s: the longest that an explanation may be searched for.
    max_losses, max_lapses, retry_s: how often a job is tried, see meshwright_service.jobs.losses.
    max_jobs: that a tenant may have queued and running.
    dask_scheduler: does the independent searches of one solve, tcp://127.0.0.1:8786 or
        tls://host:8786; beyond this machine with the files, in PEM, of the others.
    log: lines of JSON, plain text, or by whether standard error is a terminal.
    tls_cert, tls_key: files, in PEM; with them the service speaks HTTPS alone.
    metrics_host, metrics_port: where metrics are served beside the API, or without one; no port:
        nowhere.
    keep_…_days: see meshwright_service.jobs.retention; 0 for ever.
    max_body_bytes, max_body_values, max_fields, max_nesting, max_string_chars, max_ops,
        max_edges: of one request, see meshwright_service.api.request_limits.
    max_buffer_bytes: of the bodies of all requests at one time, see
    meshwright_service.api.body_memory. headers_s, body_s: that the headers of a request, and its
    body, may take to arrive. body_bytes_per_s: the least rate of a body, over any 10 s; 0 = any.
    Chosen: below a modem's. idempotency_s: for which an Idempotency-Key is kept.
    max_waits: requests of a tenant that may wait for a job, or follow one, at one time.
    agent_silent_s: from then on an agent that gave no sign is silent, and gets no measurement.
    """

    model_config = SettingsConfigDict(env_prefix="MESHWRIGHT_", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8780, ge=0, le=65535)
    allowed_hosts: str = ""
    log: Format = "auto"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    data_dir: Path = Path(".meshwright")
    database_url: str = ""
    planner: str = "default"
    verifier: str = "default"
    cost_graph_solver: str = "default"
    workers: int = Field(default=1, ge=0, le=64)
    search_processes: int = Field(default=0, ge=0, le=MAX_PROCESSES)
    poll_s: float = Field(default=0.1, gt=0, le=10)
    lease_s: float = Field(default=15, gt=0)
    solve_s: float = Field(default=900, gt=0)
    slice_s: float = Field(default=60, gt=0)
    keep_plan_s: float = Field(default=5, ge=0)
    solve_memory_bytes: int = Field(default=0, ge=0)
    solve_grace_s: float = Field(default=30, ge=0, le=600)
    cancel_grace_s: float = Field(default=5, ge=0, le=60)
    verify_s: float = Field(default=900, gt=0)
    verify_memory_bytes: int = Field(default=8 * 2**30, ge=2**28)
    view_processes: int = Field(default=1, ge=1, le=64)
    view_s: float = Field(default=120, gt=0)
    view_memory_bytes: int = Field(default=4 * 2**30, ge=2**28)
    explain_s: float = Field(default=60, gt=0, le=600)
    max_losses: int = Field(default=3, ge=1)
    max_lapses: int = Field(default=30, ge=1)
    retry_s: float = Field(default=1, ge=0, le=60)
    max_jobs: int = Field(default=1000, ge=1)
    keep_events_days: float = Field(default=30, ge=0)
    keep_jobs_days: float = Field(default=180, ge=0)
    keep_plans_days: float = Field(default=0, ge=0)
    keep_documents_days: float = Field(default=180, ge=0)
    prune_every_s: float = Field(default=3600, gt=0)
    agent_silent_s: float = Field(default=60, gt=0)
    max_body_bytes: int = Field(default=64 * 2**20, ge=1)
    max_body_values: int = Field(default=4_000_000, ge=1)
    max_cost_graph_bytes: int = Field(default=128 * 2**20, ge=1)
    max_cost_graph_values: int = Field(default=16_000_000, ge=1)
    max_fields: int = Field(default=10_000, ge=1)  # chosen: documents have a few dozen
    max_buffer_bytes: int = Field(default=256 * 2**20, ge=1)
    headers_s: float = Field(default=20, gt=0)
    body_s: float = Field(default=60, gt=0)
    body_bytes_per_s: int = Field(default=4096, ge=0)
    max_nesting: int = Field(default=MAX_NESTING + 8, ge=1, le=500)  # documents lie in requests
    max_string_chars: int = Field(default=65_536, ge=1)
    max_ops: int = Field(default=MAX_OPS, ge=1, le=MAX_OPS)
    max_edges: int = Field(default=2_000_000, ge=1)
    max_wait_s: float = Field(default=60, ge=0)
    max_waits: int = Field(default=200, ge=1)
    idempotency_s: float = Field(default=86400, gt=0)
    dask_authority: str = ""
    dask_certificate: str = ""
    dask_key: str = ""
    dask_scheduler: str = ""  # after its files, which decide whether it may be spoken to

    @field_validator("dask_scheduler")
    @classmethod
    def _may_be_spoken_to(cls, address: str, info: ValidationInfo) -> str:
        if address:
            Scheduler(address, *(info.data.get(f"dask_{name}", "") for name in DASK_FILES))
        return address

    @field_validator("solve_memory_bytes")
    @classmethod
    def _holds_a_planner(cls, wanted: int) -> int:
        if 0 < wanted < LEAST_MEMORY:
            raise ValueError(f"the planner alone takes {LEAST_MEMORY}; 0 is a share of the machine")
        return wanted

    @property
    def dask(self) -> str:
        """What the process of a search is told of the scheduler; empty where there is none."""
        if not self.dask_scheduler:
            return ""
        files = self.dask_authority, self.dask_certificate, self.dask_key
        return Scheduler(self.dask_scheduler, *files).written()

    @property
    def database(self) -> str:
        """The SQLAlchemy URL of the store."""
        return self.database_url or f"sqlite:///{(self.data_dir / 'meshwright.db').resolve()}"
