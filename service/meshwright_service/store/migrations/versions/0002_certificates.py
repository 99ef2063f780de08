"""Certificates beside plans, and jobs that verify.

Revision: 0002, after 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "certificates",
        sa.Column("plan", sa.String(length=80), nullable=False),
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["plan"], ["plans.id"], name=op.f("certificates_plan_names_plans")),
        sa.PrimaryKeyConstraint("plan", name=op.f("certificates_key")),
    )
    op.add_column(
        "jobs", sa.Column("verify", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    op.add_column("jobs", sa.Column("certificate", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("certificate")
        jobs.drop_column("verify")
    op.drop_table("certificates")
