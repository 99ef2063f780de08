"""Certificates: at most one beside each plan, the newest that decides it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from meshwright.schema import Certificate, NotFound
from service import documents
from service.inserting import insert_new
from service.tables import CertificateRow


def put(connection: Connection, certificate: Certificate, *, now: ColumnElement[float]) -> None:
    """Store a certificate in place of an older one; what is not verifiable replaces no verdict."""
    found: dict[str, Any] = {
        "id": certificate.id,
        "created": now,
        "outcome": certificate.outcome,
        "body": certificate.to_dict(),
    }
    if insert_new(connection, CertificateRow, plan=certificate.plan, **found):
        return
    older = update(CertificateRow).where(CertificateRow.plan == certificate.plan)
    if certificate.outcome == "not verifiable":
        older = older.where(CertificateRow.outcome == "not verifiable")
    connection.execute(older.values(**found))


def exists(connection: Connection, plan: str) -> bool:
    """Whether a plan has a certificate."""
    found = select(CertificateRow.id).where(CertificateRow.plan == plan)
    return connection.execute(found).first() is not None


def find(connection: Connection, plan: str) -> Certificate | None:
    """A plan's certificate, if it has one."""
    found = select(CertificateRow.body).where(CertificateRow.plan == plan)
    body = connection.execute(found).scalar()
    return None if body is None else Certificate.from_dict(body)


def read(connection: Connection, plan: str) -> Certificate:
    """A plan's certificate; NotFound where there is no such plan, or none of it."""
    certificate = find(connection, plan)
    if certificate is None:
        documents.entry(connection, "plan", plan)
        raise NotFound(
            f"the plan {plan} has no certificate; send its request again with verify: true, and it "
            "is executed without a new search"
        )
    return certificate
