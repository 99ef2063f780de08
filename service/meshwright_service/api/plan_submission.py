"""From the body of POST /v1/plan to the job that answers it.

    read        the fields, and the documents that came inline             `understand`
    calibrate   by the newest calibration, where the body names none       `with_calibration`
    look up     the newest job that answers; most requests end here        `_answering_job`
    resolve     the documents that the body names by id                    `resolved`
    validate    as the planner does before a search                        `validate`
    queue       in a transaction that looks up once more                   `_queued`

The lookup precedes the steps that need the documents: a request that has an answer was valid when
it was queued, and to read and validate a large graph takes seconds. A body that came lately is not
even read (`request_cache`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from meshwright.schema import Graph, TooLarge
from meshwright_service.api.plan_request import (
    Asked,
    resolved,
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
    """How one principal submits one request. Every method is for a thread, not the event loop.

    acceptance: the stored answers that will do; None for a new search whatever is stored. once: the
    idempotency key.
    """

    service: State
    by: Principal
    acceptance: Acceptance | None
    once: Once | None

    @property
    def may_be_known(self) -> bool:
        """Whether the bytes of a body alone may find its answer."""
        return self.acceptance is not None and self.once is None

    def of_known_body(self, encoding: str, data: Bytes) -> Submitted | None:
        """The job of a body that came lately and has an answer; None of any other body."""
        asked = self.service.remembered.request(encoding, data)
        if asked is None:
            return None
        with self.service.database.reading() as connection:
            asked = self._calibrated(connection, asked)
            job = self._answering_job(connection, asked)
        if job is None:
            return None
        self._count(job)
        return Submitted(job)

    def of_body(self, body: Body) -> Submitted:
        """The job of a body, which is queued where nothing answers yet; raises the error of what is
        wrong with the body, with a pointer into it."""
        asked = self._read(body)
        with self.service.database.reading() as connection:
            asked = self._calibrated(connection, asked)
            first_id = self._first_id(connection)
            job = self._answering_job(connection, asked)
            if job is None and first_id is None:
                validate(resolved(connection, self.by.tenant, asked))
        if first_id is not None:
            return Submitted(self.service.jobs.get(self.by.tenant, first_id), asked.verify)
        if job is None or asked.verify or self.once is not None:
            return self._queued(asked)
        self._count(job)
        return Submitted(job)

    def _read(self, body: Body) -> Asked:
        asked = understand(body.json(), self.service.settings.planner)
        for document in asked.documents:
            if isinstance(document, Graph):
                try:
                    body.limits.check_graph(document)
                except TooLarge as error:
                    raise error.within("/graph") from None
        if not asked.verify:
            self.service.remembered.keep(body.encoding, body.data, asked)
        return asked

    def _calibrated(self, connection: Connection, asked: Asked) -> Asked:
        return with_calibration(connection, self.by.tenant, asked, self.service.settings.planner)

    def _answering_job(self, connection: Connection, asked: Asked) -> Row[Any] | None:
        return answering_job(self.service, self.by, self.acceptance, asked.request, connection)

    def _first_id(self, connection: Connection) -> str | None:
        """Of the job of the first request with the idempotency key; raises KeyReused where that
        was another request."""
        if self.once is None:
            return None
        return self.service.idempotency.find(connection, self.by.tenant, self.once)

    def _queued(self, asked: Asked) -> Submitted:
        """The job once it is queued, or found: another process may have queued it meanwhile."""
        service, tenant = self.service, self.by.tenant
        queued = queue_once(
            service,
            self.by,
            self.once,
            asked.request,
            answering=lambda connection: self._answering_job(connection, asked),
            queue=lambda connection, job: self._job_id(connection, asked, job),
        )
        self._count(queued.answering)
        if queued.answering is not None and not queued.is_repeat and not asked.verify:
            return Submitted(queued.answering)
        service.wake()
        return Submitted(service.jobs.get(tenant, queued.job), asked.verify)

    def _job_id(self, connection: Connection, asked: Asked, job: Row[Any] | None) -> str:
        """Of the job that answers, one that verifies its plan, or a new one."""
        if job is not None:
            if not asked.verify:
                return str(job.id)
            return self.service.jobs.verify(connection, self.by, job)
        for document in asked.documents:
            documents.put(connection, self.by.tenant, document, now=self.service.database.now)
        return self.service.jobs.submit(
            connection,
            self.by,
            request=asked.request,
            graph=asked.graph,
            topology=asked.topology,
            options=asked.body,
            verify=asked.verify,
        )

    def _count(self, job: Row[Any] | None) -> None:
        self.service.metrics.plan_requests.labels(answer_of(job)).inc()
