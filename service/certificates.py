"""Certificates: at most one beside each plan, the newest that decides it."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from meshwright.schema import Certificate, NotFound
from service import documents
from service.tables import CertificateRow


def put(connection: Connection, certificate: Certificate, *, now: ColumnElement[float]) -> None:
    """Store a certificate in place of an older one; what is not verifiable replaces no verdict."""
    of_plan = CertificateRow.plan == certificate.plan
    older = connection.execute(select(CertificateRow.outcome).where(of_plan)).scalar()
    if certificate.outcome == "not verifiable" and older in ("verified", "failed"):
        return
    connection.execute(delete(CertificateRow).where(of_plan))
    connection.execute(
        insert(CertificateRow).values(
            plan=certificate.plan,
            id=certificate.id,
            created=now,
            outcome=certificate.outcome,
            body=certificate.to_dict(),
        )
    )


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
