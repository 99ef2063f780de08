"""The plan index: filtered lists of a tenant's plans, and the labels of plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    exists,
    func,
    select,
)
from sqlalchemy.orm import InstrumentedAttribute

from meshwright.schema import Plan, RequestError
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.document_locks import referring
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.pagination import Order, Page, PageRequest, read_page
from meshwright_service.store.request_differences import differences_of_requests
from meshwright_service.store.tables import CertificateRow, DocumentRow, KeyRow, LabelRow, PlanRow
from meshwright_service.store.time_range import ALWAYS, Period

# keys by which lists are sorted, ascending; with a minus, descending
PlanSort = Literal[
    "created", "step", "throughput", "device_throughput", "utilization", "headroom", "devices",
    "batch", "-created", "-step", "-throughput", "-device_throughput", "-utilization", "-headroom",
    "-devices", "-batch",
]  # fmt: skip
SORTS: Mapping[str, InstrumentedAttribute[Any]] = {
    "created": PlanRow.created,
    "step": PlanRow.step_ns,
    "throughput": PlanRow.units_per_s,
    "device_throughput": PlanRow.device_rate,
    "utilization": PlanRow.utilization,
    "headroom": PlanRow.headroom,
    "devices": PlanRow.devices,
    "batch": PlanRow.batch,
}
LAST = 1e300  # beyond every figure; chosen
NO_TARGET = "none"
MOST_LABELS = 32  # of a plan; chosen: readable on a page


@dataclass(frozen=True, slots=True)
class PlanFilter:
    """Filter of a plan list; a None field matches any plan.

    model, label: case-insensitive globs; one of the labels has to match. key: the id of the key of
    the request. period: of the storage. fits: whether the peak memory is within the device memory.
    headroom: the least free share of the device memory. target: "none" for plans without one.
    """

    graph: str | None = None
    topology: str | None = None
    model: str | None = None
    label: str | None = None
    outcome: str | None = None
    solver: str | None = None
    certificate: str | None = None
    key: str | None = None
    calibration: str | None = None
    period: Period = ALWAYS
    target: str | None = None
    fits: bool | None = None
    headroom: float | None = None
    batch: int | None = None
    devices: int | None = None

    def conditions(self) -> Iterable[ColumnElement[bool]]:
        """SQL conditions on a plan and its certificate."""
        yield from self.period.conditions(PlanRow.created)
        for column, wanted in (
            (PlanRow.graph, self.graph),
            (PlanRow.topology, self.topology),
            (PlanRow.outcome, self.outcome),
            (PlanRow.solver, self.solver),
            (PlanRow.key, self.key),
            (PlanRow.calibration, self.calibration),
            (CertificateRow.outcome, self.certificate),
            (PlanRow.target, "" if self.target == NO_TARGET else self.target),
            (PlanRow.batch, self.batch),
            (PlanRow.devices, self.devices),
        ):
            if wanted is not None:
                yield column == wanted
        if self.fits is not None:
            yield PlanRow.headroom >= 0 if self.fits else PlanRow.headroom < 0
        if self.headroom is not None:
            yield PlanRow.headroom >= self.headroom
        if self.model is not None and self.model.strip("*"):
            yield matches(PlanRow.model, self.model)
        if self.label is not None:
            yield exists().where(
                LabelRow.tenant == PlanRow.tenant,
                LabelRow.plan == PlanRow.id,
                matches(LabelRow.label, self.label),
            )


EVERY = PlanFilter()


def order_of(sort: PlanSort) -> Order:
    """The order of a sort key; plans of earlier versions, without the figure, are the last."""
    column = SORTS[sort.removeprefix("-")]
    is_descending = sort.startswith("-")
    return Order(func.coalesce(column, -LAST if is_descending else LAST), is_descending)


def list_plans(
    connection: Connection,
    tenant: Tenant,
    page: PageRequest,
    wanted: PlanFilter = EVERY,
    sort: PlanSort | None = None,
) -> Page[dict[str, Any]]:
    """Summaries of plans with labels, outcomes of certificates and keys.

    sort: None for the newest first.
    """
    statement = _entries(tenant).where(*wanted.conditions())
    order = None if sort is None else order_of(sort)
    rows, token = read_page(connection, statement, PlanRow.created, PlanRow.id, page, order)
    return Page(_summaries(connection, tenant, rows), token)


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """The figures of a plan by which lists are sorted; None in plans of earlier versions."""

    id: str
    name: str
    topology_name: str
    step_ns: float | None
    headroom: float | None
    devices: float | None
    batch: float | None
    units_per_s: float | None
    device_rate: float | None
    utilization: float | None


def plan_points(
    connection: Connection, tenant: Tenant, wanted: PlanFilter, limit: int
) -> tuple[list[PlanPoint], int]:
    """The figures of the newest plans of a filter, at most `limit`, and the number of all plans."""
    certificate = and_(CertificateRow.plan == PlanRow.id, CertificateRow.tenant == PlanRow.tenant)
    conditions = PlanRow.tenant == tenant, *wanted.conditions()
    statement = (
        select(
            PlanRow.id, PlanRow.model.label("name"), DocumentRow.name.label("topology_name"),
            PlanRow.step_ns, PlanRow.headroom,
            PlanRow.devices, PlanRow.batch, PlanRow.units_per_s, PlanRow.device_rate,
            PlanRow.utilization,
        )
        .outerjoin(CertificateRow, certificate)
        .join(DocumentRow, DocumentRow.id == PlanRow.topology)
        .where(*conditions)
        .order_by(PlanRow.created.desc(), PlanRow.id.desc())
        .limit(limit)
    )  # fmt: skip
    points = [PlanPoint(**row._asdict()) for row in connection.execute(statement)]
    if len(points) < limit:
        return points, len(points)
    counted = select(func.count()).select_from(PlanRow).outerjoin(CertificateRow, certificate)
    return points, connection.execute(counted.where(*conditions)).scalar_one()


def entry(connection: Connection, tenant: Tenant, plan: str) -> dict[str, Any]:
    """The summary of one plan, as in the list; raises NotFound."""
    _check(connection, tenant, plan)
    rows = connection.execute(_entries(tenant).where(PlanRow.id == plan)).all()
    (plan_entry,) = _summaries(connection, tenant, rows)
    return plan_entry


def labels_of(connection: Connection, tenant: Tenant, plan: str) -> tuple[str, ...]:
    """The labels of a plan, sorted; raises NotFound."""
    _check(connection, tenant, plan)
    return tuple(_labels(connection, tenant, [plan]).get(plan, ()))


def label(
    connection: Connection,
    tenant: Tenant,
    plan: str,
    *,
    add: Collection[str],
    remove: Collection[str],
) -> tuple[str, ...]:
    """Remove labels of a plan, then add labels; return the labels of the plan.

    Raises NotFound for an unknown plan, RequestError for too many labels.
    """
    referring(connection)
    _check(connection, tenant, plan)
    of_plan = LabelRow.tenant == tenant, LabelRow.plan == plan
    if remove:
        connection.execute(delete(LabelRow).where(*of_plan, LabelRow.label.in_(sorted(remove))))
    for name in sorted(add):
        insert_new(connection, LabelRow, tenant=tenant, plan=plan, label=name)
    labels = tuple(_labels(connection, tenant, [plan]).get(plan, ()))
    if len(labels) > MOST_LABELS:
        raise RequestError(
            f"a plan has at most {MOST_LABELS} labels, this one would have {len(labels)}",
            pointer="/add",
        )
    return labels


def matches(column: InstrumentedAttribute[str], glob: str) -> ColumnElement[bool]:
    """SQL condition: a text matches a case-insensitive glob of `*` and `?`."""
    for plain in ("\\", "%", "_"):
        glob = glob.replace(plain, "\\" + plain)
    pattern = glob.replace("*", "%").replace("?", "_")
    return func.lower(column).like(func.lower(pattern), escape="\\")


def _entries(tenant: Tenant) -> Select[Any]:
    certificate = and_(CertificateRow.plan == PlanRow.id, CertificateRow.tenant == PlanRow.tenant)
    return (
        select(
            PlanRow.id,
            PlanRow.created,
            PlanRow.summary,
            PlanRow.key,
            PlanRow.graph,
            PlanRow.options,
            KeyRow.name.label("key_name"),
            DocumentRow.name.label("topology_name"),
            CertificateRow.outcome,
        )
        .outerjoin(CertificateRow, certificate)
        .outerjoin(KeyRow, KeyRow.id == PlanRow.key)
        .join(DocumentRow, DocumentRow.id == PlanRow.topology)
        .where(PlanRow.tenant == tenant)
    )


def _summaries(
    connection: Connection, tenant: Tenant, rows: Sequence[Row[Any]]
) -> tuple[dict[str, Any], ...]:
    labels = _labels(connection, tenant, [row.id for row in rows])
    graphs = {row.graph for row in rows if row.options is not None}
    differences = differences_of_requests(connection, tenant, graphs)
    return tuple(
        {
            "id": row.id,
            "created": row.created,
            "certificate": row.outcome,
            "labels": tuple(labels.get(row.id, ())),
            "key": row.key,
            "key_name": row.key_name,
            "topology_name": row.topology_name,
            "differs_in": differences.get((row.graph, row.options), ""),
            **row.summary,
        }
        for row in rows
    )


def _labels(connection: Connection, tenant: Tenant, plans: list[str]) -> dict[str, list[str]]:
    labels: dict[str, list[str]] = {}
    if plans:
        rows = (
            select(LabelRow.plan, LabelRow.label)
            .where(LabelRow.tenant == tenant, LabelRow.plan.in_(plans))
            .order_by(LabelRow.label)
        )
        for row in connection.execute(rows):
            labels.setdefault(row.plan, []).append(row.label)
    return labels


def _check(connection: Connection, tenant: Tenant, plan: str) -> None:
    mine = select(PlanRow.id).where(PlanRow.tenant == tenant, PlanRow.id == plan)
    if connection.execute(mine).first() is None:
        raise documents.missing(Plan.prefix, plan)
