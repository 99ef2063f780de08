"""The options that the requests of plans state, and observations by topology.

Revision: 0018, after 0017
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # plain SQL for both databases: a batch rebuilds the table, which others refer to
    op.execute("ALTER TABLE plans ADD COLUMN options TEXT")
    by_topology = ["tenant", "topology", "created", "id"]
    op.create_index("observations_by_topology", "observations", by_topology)


def downgrade() -> None:
    op.drop_index("observations_by_topology", "observations")
    op.execute("ALTER TABLE plans DROP COLUMN options")
