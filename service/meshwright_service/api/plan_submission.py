"""Submission of a planning request: from the body of POST /v1/plan to its job.

    read        the fields and the inline documents                        `understand`
    calibrate   by the newest calibration, if the body names none          `with_calibration`
    look up     the newest job that answers; most requests end here        `_answering_job`
    resolve     the documents that the body names by id                    `resolve`
    validate    as the planner does before a search                        `validate`
    queue       in a transaction that looks up again                       `_queue`

The look-up precedes the steps that need the documents: an answered request was valid when it was
queued, and reading and validating a large graph takes seconds. A recently received body is not
parsed at all (`request_cache`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from meshwright.schema import Graph, TooLarge
from meshwright_service.api.plan_request import (
    PlanOrder,
    resolve,
    understand,
    validate,
    with_calibration,
)
from meshwright_service.api.request_body import Body
from meshwright_service.api.state import State
from meshwright_service.api.submission import Submitted, answer_of, answering_job, queue_once
from meshwright_service.auth.principals import Principal
from meshwright_service.common.content_encodings import Bytes
from meshwright_service.jobs.acceptance import Acceptance
from meshwright_service.jobs.idempotency import Once
from meshwright_service.store import documents


@dataclass(frozen=True, slots=True)
class Submission:
    """The submission of one request by one principal. Methods block: call them in a thread.

    acceptance: of stored answers; None for a new search. once: the idempotency key.
    """

    service: State
    by: Principal
    acceptance: Acceptance | None
    once: Once | None

    @property
    def may_be_known(self) -> bool:
        """Whether the request cache may answer a body."""
        return self.acceptance is not None and self.once is None

    def of_known_body(self, encoding: str, data: Bytes) -> Submitted | None:
        """The job that answers a body in the request cache; else None."""
        order = self.service.requests.order(encoding, data)
        if order is None:
            return None
        with self.service.database.reading() as connection:
            order = self.with_calibration(connection, order)
            job = self.answering_job(connection, order)
        if job is None:
            return None
        self._count(job)
        return Submitted(job)

    def of_body(self, body: Body) -> Submitted:
        """The job that answers a body, queued if there is none.

        Raises the error of an invalid body, with a pointer into it.
        """
        order = self._read(body)
        with self.service.database.reading() as connection:
            order = self.with_calibration(connection, order)
            first_id = self._first_id(connection)
            job = self.answering_job(connection, order)
            if job is None and first_id is None:
                validate(resolve(connection, self.by.tenant, order))
        if first_id is not None:
            return Submitted(self.service.jobs.get(self.by.tenant, first_id), order.verify)
        if job is None or order.verify or self.once is not None:
            return self._queue(order)
        self._count(job)
        return Submitted(job)

    def _read(self, body: Body) -> PlanOrder:
        order = understand(body.json(), self.service.settings.planner)
        for document in order.documents:
            if isinstance(document, Graph):
                check_graph(body, document)
        if not order.verify:
            self.service.requests.keep(body.encoding, body.data, order)
        return order

    def with_calibration(self, connection: Connection, order: PlanOrder) -> PlanOrder:
        """The request; if it names no calibration, with the newest one of its topology."""
        return with_calibration(connection, self.by.tenant, order, self.service.settings.planner)

    def answering_job(self, connection: Connection, order: PlanOrder) -> Row[Any] | None:
        """The newest job that answers a request; None without one."""
        return answering_job(self.service, self.by, self.acceptance, order, connection)

    def _first_id(self, connection: Connection) -> str | None:
        """The job id of an earlier request with the idempotency key, or None; raises KeyReused."""
        if self.once is None:
            return None
        return self.service.idempotency.find(connection, self.by.tenant, self.once)

    def _queue(self, order: PlanOrder) -> Submitted:
        """Queue the job, or return the job that another process has queued since the look-up."""
        service, tenant = self.service, self.by.tenant
        queued = queue_once(
            service,
            self.by,
            self.once,
            order.request,
            answering=lambda connection: self.answering_job(connection, order),
            queue=lambda connection, job: self.job_id(connection, order, job),
        )
        self._count(queued.answering)
        if queued.answering is not None and not queued.is_repeat and not order.verify:
            return Submitted(queued.answering)
        service.wake()
        return Submitted(service.jobs.get(tenant, queued.job), order.verify)

    def job_id(self, connection: Connection, order: PlanOrder, job: Row[Any] | None) -> str:
        """The id of the answering job, of a job that verifies its plan, or of a new job."""
        if job is not None:
            if not order.verify:
                return str(job.id)
            return self.service.jobs.verify(connection, self.by, job)
        for document in order.documents:
            documents.put(connection, self.by.tenant, document, now=self.service.database.now)
        return self.service.jobs.submit(
            connection,
            self.by,
            request=order.request,
            inputs=order.inputs,
            graph=order.graph,
            topology=order.topology,
            options=order.body,
            verify=order.verify,
        )

    def _count(self, job: Row[Any] | None) -> None:
        self.service.metrics.plan_requests.labels(answer_of(job)).inc()


def check_graph(body: Body, graph: Graph) -> None:
    """Check that the graph of a body is within the limits; raises TooLarge with its pointer."""
    try:
        body.limits.check_graph(graph)
    except TooLarge as error:
        raise error.within("/graph") from None
