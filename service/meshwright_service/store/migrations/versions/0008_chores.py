"""Periodic tasks that one process of a store does at a time, and their last start.

Revision: 0008, after 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chores",
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("done", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("name", name="chores_key"),
    )


def downgrade() -> None:
    op.drop_table("chores")
