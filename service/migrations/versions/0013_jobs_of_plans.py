"""Jobs by the plan that they found: what asked for a plan, and what goes with one.

Revision: 0013, after 0012
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # the plan first: whether the job of any tenant names a document is asked too
    op.create_index("jobs_by_plan", "jobs", ["plan", "tenant", "created", "id"])


def downgrade() -> None:
    op.drop_index("jobs_by_plan", "jobs")
