"""Submission of a sweep: from the body of POST /v1/sweeps to the jobs of its points.

    read      the sweep, its graph and its topologies                 `of_body`
    order     a planning request for each point, by ids               `_orders`
    queue     jobs for the points that have none, in one transaction  `_queue`

The id of a sweep is the digest of its body and of the planner. A sweep that is asked for again has
the same id: points with an answer, or with an open job, keep them, and only the others are queued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from meshwright.schema import (
    Document,
    Graph,
    InvalidInput,
    NotFound,
    RequestError,
    Topology,
)
from meshwright.schema.canonical import digest
from meshwright.schema.sweep import Sweep, SweepPoint
from meshwright.sweeps import points_of
from meshwright.sweeps.points import setup_of, topologies_of, wishes_of
from meshwright.sweeps.rows import check_prices
from meshwright_costmodel.presets import preset
from meshwright_service.api.plan_request import (
    PlanOrder,
    calibration_part,
    document_or_id,
    id_of,
    resolve,
    understand,
    validate,
)
from meshwright_service.api.plan_submission import Submission, check_graph
from meshwright_service.api.request_body import Body
from meshwright_service.api.state import State
from meshwright_service.auth.principals import Principal
from meshwright_service.jobs import sweeps
from meshwright_service.jobs.acceptance import Acceptance
from meshwright_service.jobs.sweeps import PointRecord
from meshwright_service.store import documents
from meshwright_service.store.document_locks import referring
from meshwright_solver.planning.build import planner_build

DOCUMENTS = ("graph", "calibration")


@dataclass(frozen=True, slots=True)
class _PointOrder:
    """A point and its planning request, or the reason for which it has none."""

    point: SweepPoint
    order: PlanOrder | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SweepSubmission:
    """The submission of one sweep by one principal. Methods block: call them in a thread."""

    service: State
    by: Principal

    def of_body(self, body: Body) -> str:
        """The id of the sweep of a body; raises the error of an invalid body or of its graph."""
        fields = body.json()
        sweep = Sweep.from_dict({n: value for n, value in fields.items() if n not in DOCUMENTS})
        graph = document_or_id(fields, "graph", Graph)
        if isinstance(graph, Graph):
            check_graph(body, graph)
        calibration = calibration_part(fields)
        calibration_id = None if calibration is None else id_of(calibration)
        topologies = dict(self._topologies(sweep))
        check_prices(sweep, topologies)
        documents_ = [*topologies.values(), graph, calibration]
        inline = tuple(part for part in documents_ if isinstance(part, Document))
        orders = list(self._orders(sweep, topologies, id_of(graph), calibration_id))
        first = next((order.order for order in orders if order.order is not None), None)
        if first is None:
            raise RequestError(f"no point of the sweep is valid: {orders[0].problem}")
        with self.service.database.reading() as connection:
            with_documents = replace(first, documents=(*first.documents, *inline))
            validate(resolve(connection, self.by.tenant, with_documents))
        stored = _with_ids(sweep)
        planner = f"{self._planner} {planner_build()}"
        about = {"graph": id_of(graph), "calibration": calibration_id, "planner": planner}
        id_ = digest("sweep", {**stored, **about})
        self._queue(id_, first.graph, stored, inline, orders)
        self.service.wake()
        return id_

    @property
    def _planner(self) -> str:
        return self.service.settings.planner

    def _topologies(self, sweep: Sweep) -> Iterator[tuple[str, Topology]]:
        """The topologies by the name that points have; raises for one that does not exist."""
        for name, topology in topologies_of(sweep).items():
            if not isinstance(topology, str):
                yield name, topology
                continue
            try:
                if topology.startswith(f"{Topology.prefix}_"):
                    with self.service.database.reading() as connection:
                        yield (
                            name,
                            documents.parsed(connection, self.by.tenant, Topology, topology),
                        )
                else:
                    yield name, preset(topology)
            except (InvalidInput, NotFound) as error:
                raise error.within("/topologies") from None

    def _orders(
        self,
        sweep: Sweep,
        topologies: Mapping[str, Topology],
        graph: str,
        calibration: str | None,
    ) -> Iterator[_PointOrder]:
        for point in points_of(sweep):
            try:
                body = {
                    "graph": graph,
                    "topology": topologies[point.topology].id,
                    "setup": setup_of(sweep, point).to_dict(),
                    **({} if calibration is None else {"calibration": calibration}),
                    **wishes_of(sweep, point).model_dump(mode="json", exclude_defaults=True),
                }
                yield _PointOrder(point, understand(body, self._planner))
            except InvalidInput as error:
                yield _PointOrder(point, problem=error.detail)

    def _queue(
        self,
        id_: str,
        graph: str,
        body: Mapping[str, Any],
        inline: tuple[Document, ...],
        orders: list[_PointOrder],
    ) -> None:
        database, tenant = self.service.database, self.by.tenant
        with database.writing() as connection:
            referring(connection)
            database.alone(connection, f"{tenant} {id_}")
            calibrated = [self._calibrated(connection, order) for order in orders]
            # in one order for all sweeps, so that two with the same points do not wait in a circle
            for request in sorted({order.order.request for order in calibrated if order.order}):
                database.alone(connection, f"{tenant} {request}")
            before = {point.job for point in sweeps.points(connection, tenant, id_) if point.queued}
            for document in inline:
                documents.put(connection, tenant, document, now=database.now)
            points = [self._point(connection, order, before) for order in calibrated]
            sweeps.put(
                connection, self.by, id_, graph=graph, body=body, points=points, now=database.now
            )

    @property
    def _requests(self) -> Submission:
        """The submission of the requests of points: an answer of any age will do."""
        return Submission(self.service, self.by, Acceptance(), None)

    def _calibrated(self, connection: Connection, order: _PointOrder) -> _PointOrder:
        if order.order is None:
            return order
        return replace(order, order=self._requests.with_calibration(connection, order.order))

    def _point(
        self, connection: Connection, point: _PointOrder, before: set[str | None]
    ) -> PointRecord:
        """The point with the job that answers it, or with a new one.

        before: the jobs that the sweep queued when it was asked for earlier.
        """
        if point.order is None:
            return PointRecord(point.point, problem=point.problem)
        job = self._requests.answering_job(connection, point.order)
        id_ = self._requests.job_id(connection, point.order, job)
        return PointRecord(point.point, id_, queued=job is None or id_ in before)


def _with_ids(sweep: Sweep) -> dict[str, Any]:
    """The sweep as JSON, with topologies by name or id."""
    topologies = [part if isinstance(part, str) else part.id for part in sweep.topologies]
    return {**sweep.to_dict(), "topologies": topologies}
