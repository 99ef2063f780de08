"""The cost graph and the solution of a job.

Revision: 0016, after 0015
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

COLUMNS = ("cost_graph", "solution")


def upgrade() -> None:
    for column in COLUMNS:
        # plain SQL for both databases: a batch rebuilds the table, which others refer to
        op.execute(
            f"ALTER TABLE jobs ADD COLUMN {column} VARCHAR(80) "
            f"CONSTRAINT jobs_{column}_names_documents REFERENCES documents (id)"
        )
        op.create_index(f"jobs_of_{column}", "jobs", [column])


def downgrade() -> None:
    op.execute("DELETE FROM job_events WHERE job IN (SELECT id FROM jobs WHERE kind = 'solution')")
    op.execute("DELETE FROM jobs WHERE kind = 'solution'")
    for column in COLUMNS:
        op.drop_index(f"jobs_of_{column}", "jobs")
        op.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
