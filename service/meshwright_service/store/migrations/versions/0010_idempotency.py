"""Idempotency keys and the jobs of their requests.

Revision: 0010, after 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("job", sa.String(80), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["job"], ["jobs.id"], name="idempotency_job_names_jobs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("tenant", "key", name="idempotency_key"),
    )
    op.create_index("idempotency_by_age", "idempotency", ["tenant", "created"])
    op.create_index("idempotency_by_job", "idempotency", ["job"])


def downgrade() -> None:
    op.drop_table("idempotency")
