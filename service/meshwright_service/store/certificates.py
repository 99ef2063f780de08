"""Certificates: at most one for each plan of a tenant, the newest conclusive one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, select, update

from meshwright.schema import Certificate, NotFound
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.tables import CertificateRow


def put(
    connection: Connection, tenant: Tenant, certificate: Certificate, *, now: ColumnElement[float]
) -> None:
    """Store a certificate in place of an older one, unless only the older one is conclusive."""
    columns: dict[str, Any] = {
        "id": certificate.id,
        "created": now,
        "outcome": certificate.outcome,
        "body": certificate.to_dict(),
    }
    if insert_new(connection, CertificateRow, tenant=tenant, plan=certificate.plan, **columns):
        return
    older = update(CertificateRow).where(_of(tenant, certificate.plan))
    if certificate.outcome == "not verifiable":
        older = older.where(CertificateRow.outcome == "not verifiable")
    connection.execute(older.values(**columns))


def exists(connection: Connection, tenant: Tenant, plan: str) -> bool:
    """Whether a plan has a certificate."""
    return connection.execute(_ID, {"tenant": tenant, "plan": plan}).first() is not None


def find(connection: Connection, tenant: Tenant, plan: str) -> Certificate | None:
    """The certificate of a plan, or None."""
    certificate_body = select(CertificateRow.body).where(_of(tenant, plan))
    body = connection.execute(certificate_body).scalar()
    return None if body is None else Certificate.from_dict(body)


def read(connection: Connection, tenant: Tenant, plan: str) -> Certificate:
    """The certificate of a plan; raises NotFound for an unknown plan or a plan without one."""
    certificate = find(connection, tenant, plan)
    if certificate is None:
        documents.entry(connection, tenant, "plan", plan)
        raise NotFound(
            f"the plan {plan} has no certificate. Send its request again with verify: true, which "
            "executes the plan without a new search"
        )
    return certificate


def _of(tenant: Tenant, plan: str) -> ColumnElement[bool]:
    return and_(CertificateRow.tenant == tenant, CertificateRow.plan == plan)


_ID = select(CertificateRow.id).where(  # built once: every request that a plan answers runs it
    CertificateRow.tenant == bindparam("tenant"), CertificateRow.plan == bindparam("plan")
)
