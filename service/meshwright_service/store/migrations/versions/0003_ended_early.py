"""The times of a job's search, and whether it was ended early.

Revision: 0003, after 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("seconds", sa.JSON(none_as_null=True), nullable=True))
    op.add_column(
        "jobs", sa.Column("ended_early", sa.Boolean(), server_default=sa.false(), nullable=False)
    )


def downgrade() -> None:
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("ended_early")
        jobs.drop_column("seconds")
