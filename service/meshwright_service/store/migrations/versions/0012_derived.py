"""Derived documents.

Revision: 0012, after 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "derived",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("document", sa.String(80), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "document", "name", "part", name="derived_key"),
        sa.ForeignKeyConstraint(
            ["tenant", "document"], ["holdings.tenant", "holdings.id"],
            name="derived_tenant_names_holdings",
            ondelete="CASCADE",
        ),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_table("derived")
