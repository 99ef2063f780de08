"""The document store: immutable, content-addressed, compressed documents of tenants.

The bytes of a document are stored once for all tenants. Every query is about the holdings of one
tenant and reveals nothing of others.

Every function takes the connection of the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, insert, select

from meshwright.schema import Calibration, Document, Graph, NotFound, Plan, Setup, Topology
from meshwright.schema.canonical import canonical_json
from meshwright_costmodel.calibrations import shipped_calibration
from meshwright_service.common.tenant import Tenant
from meshwright_service.common.zstd import unpack
from meshwright_service.store import derived_documents
from meshwright_service.store.document_locks import referring
from meshwright_service.store.encoded_documents import StoredDocument, StoredPlan, stored
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.pagination import Page, PageRequest, read_page
from meshwright_service.store.tables import DocumentRow, HoldingRow, PlanRow

D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Entry:
    """A document in a list."""

    id: str
    name: str
    created: float
    content_bytes: int
    summary: dict[str, Any]


def need(connection: Connection, tenant: Tenant, ids: Iterable[str | None]) -> None:
    """Check that a tenant has these documents until a writing transaction ends; raises NotFound."""
    referring(connection)
    wanted = {id_ for id_ in ids if id_}
    mine = select(HoldingRow.id).where(HoldingRow.tenant == tenant, HoldingRow.id.in_(wanted))
    missing = wanted.difference(connection.execute(mine).scalars())
    if missing:
        raise NotFound(f"{min(missing)[:100]!r} was just deleted. Upload it again")


def put(
    connection: Connection, tenant: Tenant, document: Document, *, now: ColumnElement[float]
) -> bool:
    """Store a document; False if the tenant had it."""
    referring(connection)
    if exists(connection, tenant, document.prefix, document.id):
        return False
    # encode it even if another tenant has it: the duration must not reveal that
    return put_encoded(connection, tenant, stored(document), now=now)


def put_encoded(
    connection: Connection, tenant: Tenant, document: StoredDocument, *, now: ColumnElement[float]
) -> bool:
    """Store a document that was encoded before the transaction; False if the tenant had it."""
    referring(connection)
    insert_new(connection, DocumentRow, created=now, **asdict(document))
    holding = {"tenant": tenant, "id": document.id, "kind": document.kind}
    return insert_new(connection, HoldingRow, **holding, created=now)


def put_plan(
    connection: Connection,
    tenant: Tenant,
    plan: StoredPlan,
    *,
    now: ColumnElement[float],
    key: str | None = None,
) -> None:
    """Store a plan, its row in the plan index and its derived documents.

    A calibration that ships with the planner is stored too, because a later planner may lack it.
    key: the key of the request.
    """
    referring(connection)
    if exists(connection, tenant, Plan.prefix, plan.id):
        return
    if put_encoded(connection, tenant, plan.document, now=now):
        planner_calibration = shipped_calibration(plan.columns["calibration"])
        if planner_calibration is not None:
            put(connection, tenant, planner_calibration, now=now)
        row = {"tenant": tenant, "id": plan.id, "created": now, "key": key, **plan.columns}
        connection.execute(insert(PlanRow).values(**row))
        for name, parts in plan.derived.items():
            derived_documents.put(connection, tenant, plan.id, name, parts)


def exists(connection: Connection, tenant: Tenant, kind: str, id_: str) -> bool:
    """Whether the tenant has a document of this kind with this id."""
    rows = connection.execute(_ID, {"tenant": tenant, "kind": kind, "id": id_})
    return rows.first() is not None


def check(connection: Connection, tenant: Tenant, kind: str, id_: str) -> None:
    """Raise NotFound unless the tenant has a document of this kind with this id."""
    if not exists(connection, tenant, kind, id_):
        raise missing(kind, id_)


def missing(kind: str, id_: str) -> NotFound:
    """The error for an unknown id of a kind of document."""
    return NotFound(f"no {_NAMES.get(kind, kind)} has the id {id_[:100]!r}")


def read(connection: Connection, tenant: Tenant, kind: str, id_: str) -> bytes:
    """The canonical JSON of a document; raises NotFound."""
    return unpack(read_packed(connection, tenant, kind, id_))


def read_packed(connection: Connection, tenant: Tenant, kind: str, id_: str) -> bytes:
    """The canonical JSON of a document, compressed with zstd; raises NotFound."""
    row = connection.execute(_BODY, {"tenant": tenant, "kind": kind, "id": id_}).first()
    if row is None:
        raise missing(kind, id_)
    packed: bytes = row.body
    return packed


def parsed(connection: Connection, tenant: Tenant, kind: type[D], id_: str) -> D:
    """A document; raises NotFound."""
    return kind.from_json(read(connection, tenant, kind.prefix, id_))


def of_plan(connection: Connection, tenant: Tenant, plan: str) -> dict[str, bytes]:
    """The JSON of a plan and of the documents that it names; raises NotFound."""
    references = select(PlanRow.graph, PlanRow.topology, PlanRow.summary, PlanRow.calibration)
    row = connection.execute(references.where(PlanRow.tenant == tenant, PlanRow.id == plan)).first()
    if row is None:
        raise missing(Plan.prefix, plan)
    return {
        "plan": read(connection, tenant, Plan.prefix, plan),
        "graph": read(connection, tenant, Graph.prefix, row.graph),
        "topology": read(connection, tenant, Topology.prefix, row.topology),
        "setup": read(connection, tenant, Setup.prefix, row.summary["setup"]),
        "calibration": calibration(connection, tenant, row.calibration).to_json().encode(),
    }


def calibration(connection: Connection, tenant: Tenant, id_: str) -> Calibration:
    """The calibration of a plan: one that ships with the planner, or a stored one."""
    return shipped_calibration(id_) or parsed(connection, tenant, Calibration, id_)


def join(parts: Mapping[str, bytes], rest: Mapping[str, Any]) -> bytes:
    """One JSON object of documents, as their JSON, and further values."""
    fields = [f"{json.dumps(name)}:".encode() + part for name, part in parts.items()]
    fields += [
        f"{json.dumps(name)}:{canonical_json(value)}".encode() for name, value in rest.items()
    ]
    return b"{" + b",".join(fields) + b"}"


def entry(connection: Connection, tenant: Tenant, kind: str, id_: str) -> Entry:
    """The list entry of one document; raises NotFound."""
    statement = _with_holdings(select(*_ENTRY), tenant, kind).where(HoldingRow.id == id_)
    row = connection.execute(statement).first()
    if row is None:
        raise missing(kind, id_)
    return Entry(*row)


def list_documents(
    connection: Connection,
    tenant: Tenant,
    kind: str,
    page: PageRequest,
    *conditions: ColumnElement[bool],
) -> Page[Entry]:
    """Documents of a kind, newest first. conditions: on their holdings."""
    statement = _with_holdings(select(*_ENTRY), tenant, kind).where(*conditions)
    rows, token = read_page(connection, statement, HoldingRow.created, HoldingRow.id, page)
    return Page(tuple(Entry(*row) for row in rows), token)


def _of_kind(tenant: Tenant, kind: str) -> ColumnElement[bool]:
    return and_(HoldingRow.tenant == tenant, HoldingRow.kind == kind)


def _with_holdings(columns: Select[Any], tenant: Tenant, kind: str) -> Select[Any]:
    joined = columns.select_from(HoldingRow).join(DocumentRow, DocumentRow.id == HoldingRow.id)
    return joined.where(_of_kind(tenant, kind))


_ENTRY = (
    HoldingRow.id,
    DocumentRow.name,
    HoldingRow.created,
    DocumentRow.content_bytes,
    DocumentRow.summary,
)
# built once: every fetch of a plan runs them
_THIS = (
    HoldingRow.tenant == bindparam("tenant"),
    HoldingRow.kind == bindparam("kind"),
    HoldingRow.id == bindparam("id"),
)
_ID = select(HoldingRow.id).where(*_THIS)
_BODY = select(DocumentRow.body).join(HoldingRow, DocumentRow.id == HoldingRow.id).where(*_THIS)
_NAMES = {"topo": "topology", "cal": "calibration", "costgraph": "cost graph"}
