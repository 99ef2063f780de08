"""Separate counts of lapses and yields, and pauses between attempts.

Revision: 0015, after 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("lapses", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("yields", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("paused_until", sa.Float(53), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "paused_until")
    op.drop_column("jobs", "yields")
    op.drop_column("jobs", "lapses")
