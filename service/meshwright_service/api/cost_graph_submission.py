"""Submission of a cost graph: from the body of POST /v1/cost-graphs:solve to its job.

read       the cost graph and the options; encode the cost graph   `read_order`
look up    the newest job that answers                             `_answering_job`
queue      in a transaction that looks up again                    `queue_once`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from meshwright.schema import NotFound
from meshwright.schema.cost_graph import CostGraphFile
from meshwright_service.api.cost_graph_request import CostGraphOrder, read_order
from meshwright_service.api.request_body import Body
from meshwright_service.api.state import State
from meshwright_service.api.submission import Submitted, answer_of, answering_job, queue_once
from meshwright_service.auth.principals import Principal
from meshwright_service.jobs.acceptance import Acceptance
from meshwright_service.jobs.idempotency import Once
from meshwright_service.store import documents


@dataclass(frozen=True, slots=True)
class CostGraphSubmission:
    """The submission of one cost graph by one principal. Methods block: call them in a thread.

    acceptance: of stored answers; None for a new search. once: the idempotency key.
    """

    service: State
    by: Principal
    acceptance: Acceptance | None
    once: Once | None

    def of_body(self, body: Body) -> Submitted:
        """The job that answers a body, queued if there is none.

        Raises the error of an invalid body, with a pointer into it.
        """
        service = self.service
        order = read_order(body, service.settings.cost_graph_solver)
        job = None
        if self.once is None:
            with service.database.reading() as connection:
                job = self._answering_job(connection, order)
        if job is None:
            queued = queue_once(
                service,
                self.by,
                self.once,
                order.request,
                answering=lambda connection: self._answering_job(connection, order),
                queue=lambda connection, known: self._job_id(connection, order, known),
            )
            service.wake()
            job = service.jobs.get(self.by.tenant, queued.job)
            answer = answer_of(queued.answering)
        else:
            answer = answer_of(job)
        service.metrics.cost_graph_requests.labels(answer).inc()
        return Submitted(job)

    def _answering_job(self, connection: Connection, order: CostGraphOrder) -> Row[Any] | None:
        return answering_job(self.service, self.by, self.acceptance, order, connection)

    def _job_id(self, connection: Connection, order: CostGraphOrder, known: Row[Any] | None) -> str:
        """The id of the answering job, or of a new job."""
        if known is not None:
            return str(known.id)
        tenant = self.by.tenant
        if order.document is not None:
            now = self.service.database.now
            documents.put_encoded(connection, tenant, order.document, now=now)
        elif not documents.exists(connection, tenant, CostGraphFile.prefix, order.cost_graph):
            raise NotFound(
                f"no cost graph has the id {order.cost_graph!r}. Send it inline as problem",
                pointer="/cost_graph",
            )
        return self.service.jobs.solve(
            connection,
            self.by,
            request=order.request,
            inputs=order.inputs,
            cost_graph=order.cost_graph,
            options=order.body,
        )
