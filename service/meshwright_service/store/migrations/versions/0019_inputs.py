"""The digests of requests without the build of the planner.

Revision: 0019, after 0018
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from meshwright.schema.canonical import digest

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

AT_ONCE = 500


def upgrade() -> None:
    # plain SQL for both databases: a batch rebuilds the table, which others refer to
    op.execute("ALTER TABLE jobs ADD COLUMN inputs VARCHAR(80)")
    op.create_index("jobs_by_inputs", "jobs", ["inputs", "tenant", "created"])
    _fill()


def downgrade() -> None:
    op.drop_index("jobs_by_inputs", "jobs")
    op.execute("ALTER TABLE jobs DROP COLUMN inputs")


def _fill() -> None:
    """Set the digests of stored jobs, from the options that they keep."""
    connection = op.get_bind()
    after = ""
    while True:
        rows = connection.execute(
            sa.text(
                "SELECT id, asked FROM jobs WHERE id > :after AND kind IN ('plan', 'solution') "
                "ORDER BY id LIMIT :count"
            ),
            {"after": after, "count": AT_ONCE},
        ).all()
        for id_, asked in rows:
            options = json.loads(asked) if isinstance(asked, str) else asked
            connection.execute(
                sa.text("UPDATE jobs SET inputs = :inputs WHERE id = :id"),
                {"id": id_, "inputs": digest("inputs", options)},
            )
        if len(rows) < AT_ONCE:
            return
        after = rows[-1][0]
