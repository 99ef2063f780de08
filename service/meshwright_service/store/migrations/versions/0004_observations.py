"""Observations: step times that training jobs reported.

Revision: 0004, after 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "observations",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("plan", sa.String(length=80), nullable=False),
        sa.Column("topology", sa.String(length=80), nullable=False),
        sa.Column("calibration", sa.String(length=80), nullable=False),
        sa.Column("stack", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("ratio", sa.Float(precision=53), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["plan"], ["plans.id"], name=op.f("observations_plan_names_plans")),
        sa.PrimaryKeyConstraint("id", name=op.f("observations_key")),
    )
    op.create_index("observations_by_plan", "observations", ["plan", "created", "id"])
    op.create_index(
        "observations_by_calibration", "observations", ["calibration", "topology", "created"]
    )


def downgrade() -> None:
    op.drop_table("observations")
