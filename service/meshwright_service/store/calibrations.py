"""Stored calibrations, and the topologies in which they were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, bindparam, select

from meshwright.schema import Calibration
from meshwright.schema.samples import Samples
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.documents import Entry
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.pagination import Page, PageRequest
from meshwright_service.store.tables import CalibratedRow, DocumentRow, HoldingRow


def put(
    connection: Connection, tenant: Tenant, calibration: Calibration, *, now: ColumnElement[float]
) -> bool:
    """Store a calibration; if the tenant has its samples, as measured in their topology."""
    created = documents.put(connection, tenant, calibration, now=now)
    fitted = calibration.fitted
    if fitted and documents.exists(connection, tenant, Samples.prefix, fitted.samples):
        samples = documents.parsed(connection, tenant, Samples, fitted.samples)
        put_measured(connection, tenant, calibration, samples.topology.id, now=now)
    return created


def put_samples(
    connection: Connection,
    tenant: Tenant,
    samples: Samples,
    calibration: Calibration,
    *,
    now: ColumnElement[float],
) -> bool:
    """Store samples, their topology and their calibration; False if the samples were stored."""
    created = documents.put(connection, tenant, samples, now=now)
    documents.put(connection, tenant, samples.topology, now=now)
    put_measured(connection, tenant, calibration, samples.topology.id, now=now)
    return created


def put_measured(
    connection: Connection,
    tenant: Tenant,
    calibration: Calibration,
    topology: str,
    *,
    now: ColumnElement[float],
) -> None:
    """Store a calibration as measured in a topology."""
    documents.put(connection, tenant, calibration, now=now)
    row = {"tenant": tenant, "topology": topology, "calibration": calibration.id}
    insert_new(connection, CalibratedRow, **row)


def list_calibrations(
    connection: Connection, tenant: Tenant, page: PageRequest, topology: str | None = None
) -> Page[Entry]:
    """Calibrations, newest first; with a topology only those that were measured in it."""
    measured = () if topology is None else (_measured_in(topology),)
    return documents.list_documents(connection, tenant, Calibration.prefix, page, *measured)


def newest(connection: Connection, tenant: Tenant, topology: str) -> str | None:
    """The default calibration of plans for a topology: the newest one fitted to its samples.

    None if the tenant has none. Anchored calibrations are excluded: each observation makes another
    one, which would invalidate stored plans, and only an unanchored calibration can be anchored.
    """
    calibration = connection.execute(_NEWEST, {"tenant": tenant, "topology": topology}).first()
    return None if calibration is None else str(calibration.id)


def topologies_of(
    connection: Connection, tenant: Tenant, calibrations: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """By calibration, the topologies in which it was measured; without the others."""
    pairs = select(CalibratedRow.calibration, CalibratedRow.topology).where(
        CalibratedRow.tenant == tenant, CalibratedRow.calibration.in_(calibrations)
    )
    topologies: defaultdict[str, list[str]] = defaultdict(list)
    for row in connection.execute(pairs.order_by(CalibratedRow.topology)):
        topologies[row.calibration].append(row.topology)
    return {calibration: tuple(ids) for calibration, ids in topologies.items()}


# built once: every request for a plan runs it
_NEWEST = (
    select(HoldingRow.id)
    .join(
        CalibratedRow,
        and_(
            CalibratedRow.tenant == HoldingRow.tenant,
            CalibratedRow.calibration == HoldingRow.id,
        ),
    )
    .join(DocumentRow, DocumentRow.id == HoldingRow.id)
    .where(
        CalibratedRow.tenant == bindparam("tenant"),
        CalibratedRow.topology == bindparam("topology"),
        DocumentRow.summary["samples"].as_string().is_not(None),
        DocumentRow.summary["anchored"].as_string().is_(None),
    )
    .order_by(HoldingRow.created.desc(), HoldingRow.id.desc())
    .limit(1)
)


def _measured_in(topology: str) -> ColumnElement[bool]:
    return (
        select(CalibratedRow.calibration)
        .where(
            CalibratedRow.tenant == HoldingRow.tenant,
            CalibratedRow.calibration == HoldingRow.id,
            CalibratedRow.topology == topology,
        )
        .exists()
    )
