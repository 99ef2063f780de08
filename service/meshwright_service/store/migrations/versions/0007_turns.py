"""The start of a key's last job, for the fair share of keys.

Revision: 0007, after 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("keys", sa.Column("served", sa.Float(precision=53), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("keys") as keys:
        keys.drop_column("served")
