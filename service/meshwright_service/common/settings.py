"""The settings of the server: environment variables with the prefix MESHWRIGHT_."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from meshwright.common.process_pool import MAX_PROCESSES
from meshwright.schema.canonical import MAX_NESTING
from meshwright.schema.graph import MAX_OPS
from meshwright_service.common.dask_address import Scheduler
from meshwright_service.common.database_password import url_with_password
from meshwright_service.common.memory_limit import LEAST_MEMORY
from meshwright_service.common.proxies import check_proxies, check_root_path
from meshwright_service.common.secret_files import SecretFiles

# settings that a file may hold, see meshwright_service.common.secret_files
SECRETS = ("database_url", "database_password")
DASK_FILES = ("authority", "certificate", "key")
Format = Literal["auto", "json", "text"]


class Settings(BaseSettings):
    """The settings of the server; docs/reference/service.md explains each one.

    database_url: SQLAlchemy URL; empty for SQLite in `data_dir`.
    database_password: password of the role in database_url, which then has none.
    planner: a name in the entry point group `meshwright.planner`, or `module:function`.
    verifier: the same in the group `meshwright.verifier`.
    cost_graph_solver: the same in the group `meshwright.cost_graph_solver`.
    workers: worker loops of this process; each runs one job at a time.
    search_processes: processes for the independent searches of one pipeline search; 0 for the
        number of cores, at most eight.
    allowed_hosts: further names of the service in Host headers; see
        meshwright_service.api.middleware.host_check.
    root_path: the path under which a reverse proxy serves the service; empty for the root.
    trusted_proxies: addresses and networks whose X-Forwarded-For and X-Forwarded-Proto count.
    solve_s: time limit of a search, which then returns its best plan; without one its job fails.
    solve_memory_bytes: memory limit of each process of a search; 0 for its share of the machine,
        see meshwright_service.common.memory_limit.
    slice_s: minimum time of a job before it gives way to another tenant's job. Chosen: most
        searches take less.
    keep_plan_s: time before the first incumbent plan is stored. Chosen: most searches take less.
    solve_grace_s, cancel_grace_s: time to return the best plan after solve_s, and after a
        cancellation. Chosen: writing the plan of Llama-3 8B takes a second, several on a busy
        machine.
    verify_s, verify_memory_bytes: limits of the execution of a plan; beyond them the outcome is
        "not verifiable".
    view_processes, view_s, view_memory_bytes: concurrent processes that compute views of plans, and
        the limits of each.
    explain_s: maximum time of the search for an explanation.
    max_losses, max_lapses, retry_s: limits of retries, see meshwright_service.jobs.losses.
    max_jobs: limit of the queued and running jobs of a tenant.
    dask_scheduler: scheduler for the independent searches of one job, tcp://127.0.0.1:8786 or
        tls://host:8786; TLS needs the PEM files of the other dask settings.
    log: JSON lines, plain text, or auto: plain text on a terminal.
    tls_cert, tls_key: PEM files; with them the service accepts only HTTPS.
    metrics_host, metrics_port: address of a separate metrics server; None for no server.
    keep_…_days: see meshwright_service.jobs.retention; 0 for no limit.
    max_body_bytes, max_body_values, max_fields, max_nesting, max_string_chars, max_ops,
        max_edges: limits of one request, see meshwright_service.api.request_limits.
    max_buffer_bytes: limit of the bodies of all open requests, see
        meshwright_service.api.body_memory.
    headers_s, body_s: timeouts of the headers and the body of a request.
    body_bytes_per_s: minimum rate of a body over any 10 s; 0 for none. Chosen: below a modem's.
    idempotency_s: lifetime of an Idempotency-Key.
    max_waits: limit of the requests of a tenant that wait for a job or stream its events.
    agent_silent_s: an agent without a heartbeat for this time gets no measurement.
    """

    model_config = SettingsConfigDict(env_prefix="MESHWRIGHT_", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8780, ge=0, le=65535)
    allowed_hosts: str = ""
    root_path: str = ""
    trusted_proxies: str = ""
    log: Format = "auto"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    data_dir: Path = Path(".meshwright")
    database_url: str = ""
    database_password: SecretStr = SecretStr("")
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
    max_nesting: int = Field(default=MAX_NESTING + 8, ge=1, le=500)  # a request nests a document
    max_string_chars: int = Field(default=65_536, ge=1)
    max_ops: int = Field(default=MAX_OPS, ge=1, le=MAX_OPS)
    max_edges: int = Field(default=2_000_000, ge=1)
    max_wait_s: float = Field(default=60, ge=0)
    max_waits: int = Field(default=200, ge=1)
    idempotency_s: float = Field(default=86400, gt=0)
    dask_authority: str = ""
    dask_certificate: str = ""
    dask_key: str = ""
    dask_scheduler: str = ""  # after its files, which its validator reads

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the base class's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Options, then the environment, then the files of secrets."""
        return init_settings, env_settings, SecretFiles(settings_cls, SECRETS)

    @field_validator("database_password")
    @classmethod
    def _check_password(cls, password: SecretStr, info: ValidationInfo) -> SecretStr:
        url = info.data.get("database_url")
        if url and password.get_secret_value():
            url_with_password(url, password.get_secret_value())
        return password

    @field_validator("root_path")
    @classmethod
    def _check_root_path(cls, path: str) -> str:
        check_root_path(path)
        return path

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, addresses: str) -> str:
        check_proxies(addresses)
        return addresses

    @field_validator("dask_scheduler")
    @classmethod
    def _check_scheduler(cls, address: str, info: ValidationInfo) -> str:
        if address:
            Scheduler(address, *(info.data.get(f"dask_{name}", "") for name in DASK_FILES))
        return address

    @field_validator("solve_memory_bytes")
    @classmethod
    def _check_memory(cls, wanted: int) -> int:
        if 0 < wanted < LEAST_MEMORY:
            raise ValueError(f"the planner alone takes {LEAST_MEMORY}; 0 is a share of the machine")
        return wanted

    @property
    def dask(self) -> str:
        """The scheduler as text for a search process; empty without a scheduler."""
        if not self.dask_scheduler:
            return ""
        files = self.dask_authority, self.dask_certificate, self.dask_key
        return Scheduler(self.dask_scheduler, *files).written()

    @property
    def database(self) -> str:
        """The SQLAlchemy URL of the store, with its password."""
        url = self.database_url or f"sqlite:///{(self.data_dir / 'meshwright.db').resolve()}"
        password = self.database_password.get_secret_value()
        return url_with_password(url, password) if password else url
