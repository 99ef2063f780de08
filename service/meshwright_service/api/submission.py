"""The job that answers a request: an existing one, or a new one that is queued exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sqlalchemy import Connection, Row

from meshwright_service.api.state import State
from meshwright_service.auth.principals import Principal
from meshwright_service.jobs.acceptance import OPEN, Acceptance
from meshwright_service.jobs.idempotency import Once
from meshwright_service.jobs.jobs import has_ended
from meshwright_service.store.document_locks import referring


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job that answers a request, at the time of the submission.

    verify: whether its plan needs a certificate.
    """

    job: Row[Any]
    verify: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether the job has ended, or has a plan and needs no certificate."""
        return has_ended(self.job) or (self.job.plan is not None and not self.verify)


@dataclass(frozen=True, slots=True)
class Queued:
    """The result of `queue_once`. job: the id. answering: an existing job that answers. is_repeat:
    whether an earlier request with the same idempotency key queued the job."""

    job: str
    answering: Row[Any] | None
    is_repeat: bool


class RequestDigests(Protocol):
    """The digests of a parsed request. request: with the planner's build; inputs: without it."""

    @property
    def request(self) -> str: ...

    @property
    def inputs(self) -> str: ...


def answering_job(
    service: State,
    by: Principal,
    acceptance: Acceptance | None,
    order: RequestDigests,
    on: Connection,
) -> Row[Any] | None:
    """The newest job that answers a request; None without one, or if acceptance is None."""
    if acceptance is None:
        return None
    inputs = order.inputs if acceptance.of_any_build else ""
    return service.jobs.find(on, by.tenant, order.request, acceptance, inputs=inputs)


def queue_once(
    service: State,
    by: Principal,
    once: Once | None,
    request: str,
    *,
    answering: Callable[[Connection], Row[Any] | None],
    queue: Callable[[Connection, Row[Any] | None], str],
) -> Queued:
    """Find or queue the job of a request in one transaction, under a lock of the request.

    answering: finds an existing job. queue: returns the id of that job or of a new one; not called
    for a repeated idempotency key.
    """
    tenant = by.tenant
    with service.database.writing() as connection:
        referring(connection)
        first = None if once is None else service.idempotency.alone(connection, tenant, once)
        service.database.alone(connection, f"{tenant} {request}")
        job = answering(connection)
        if first is not None:
            return Queued(first, job, is_repeat=True)
        queued = queue(connection, job)
        if once is not None:
            service.idempotency.keep(connection, tenant, once, queued)
    return Queued(queued, job, is_repeat=False)


def answer_of(job: Row[Any] | None) -> Literal["queued", "joined", "stored"]:
    """The source of an answer, for the metrics: a new job, an open one, or an ended one."""
    return "queued" if job is None else "joined" if job.state in OPEN else "stored"
