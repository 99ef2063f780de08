"""The calibration of each plan, and the topologies in which calibrations were measured.

Revision: 0011, after 0010
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
import zstandard
from alembic import op

from meshwright.schema.canonical import digest

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

HOLDINGS = sa.table("holdings", *map(sa.column, ("tenant", "id", "kind", "created")))
DOCUMENTS = sa.table("documents", *map(sa.column, ("id", "body")))
PLANS = sa.table("plans", *map(sa.column, ("tenant", "id", "calibration")))
CALIBRATED = sa.table("calibrated", *map(sa.column, ("tenant", "topology", "calibration")))


def upgrade() -> None:
    op.add_column(
        "plans", sa.Column("calibration", sa.String(80), nullable=False, server_default="")
    )
    op.create_index("plans_by_calibration", "plans", ["tenant", "calibration", "created", "id"])
    op.create_table(
        "calibrated",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("topology", sa.String(80), nullable=False),
        sa.Column("calibration", sa.String(80), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "topology", "calibration", name="calibrated_key"),
        sa.ForeignKeyConstraint(
            ["tenant", "calibration"],
            ["holdings.tenant", "holdings.id"],
            name="calibrated_tenant_names_holdings",
            ondelete="CASCADE",
        ),
    )
    op.create_index("calibrated_by_calibration", "calibrated", ["tenant", "calibration"])
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    """Fill the new column and table from the existing documents."""
    for id_, body in _bodies(connection, "plan"):
        named = str(body.get("calibration", ""))
        connection.execute(sa.update(PLANS).where(PLANS.c.id == id_).values(calibration=named))
    measured = {
        id_: digest("topo", body["topology"]) for id_, body in _bodies(connection, "samples")
    }
    for id_, body in _bodies(connection, "cal"):
        samples = (body.get("fitted") or {}).get("samples")
        if samples not in measured:
            continue
        beside = HOLDINGS.alias()
        both = sa.and_(beside.c.tenant == HOLDINGS.c.tenant, beside.c.id == samples)
        tenants = sa.select(HOLDINGS.c.tenant).where(HOLDINGS.c.id == id_)
        for tenant in connection.execute(tenants.where(sa.exists().where(both))).scalars().all():
            connection.execute(
                sa.insert(CALIBRATED).values(
                    tenant=tenant, topology=measured[samples], calibration=id_
                )
            )


def _bodies(connection: sa.Connection, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents of a kind, read one at a time, because a plan may be large."""
    held = sa.select(HOLDINGS.c.id).where(HOLDINGS.c.kind == kind).distinct()
    for id_ in connection.execute(held).scalars().all():
        document = sa.select(DOCUMENTS.c.body).where(DOCUMENTS.c.id == id_)
        packed = connection.execute(document).scalar()
        if packed:
            yield id_, json.loads(zstandard.ZstdDecompressor().decompress(packed))


def downgrade() -> None:
    op.drop_table("calibrated")
    op.drop_index("plans_by_calibration", "plans")
    op.drop_column("plans", "calibration")
