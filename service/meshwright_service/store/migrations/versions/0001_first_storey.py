"""The first storey: documents, plans, jobs and their events.

Revision: 0001, the first
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "documents",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("content_bytes", sa.Integer(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("documents_key")),
    )
    op.create_index("documents_by_age", "documents", ["kind", "created", "id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("request", sa.String(length=80), nullable=False),
        sa.Column("graph", sa.String(length=80), nullable=False),
        sa.Column("topology", sa.String(length=80), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=80), nullable=True),
        sa.Column("lease_until", sa.Float(precision=53), nullable=True),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("started", sa.Float(precision=53), nullable=True),
        sa.Column("finished", sa.Float(precision=53), nullable=True),
        sa.Column("progress", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("plan", sa.String(length=80), nullable=True),
        sa.Column("infeasible", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("problem", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("trace", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["graph"], ["documents.id"], name=op.f("jobs_graph_names_documents")
        ),
        sa.ForeignKeyConstraint(["plan"], ["documents.id"], name=op.f("jobs_plan_names_documents")),
        sa.ForeignKeyConstraint(
            ["topology"], ["documents.id"], name=op.f("jobs_topology_names_documents")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("jobs_key")),
    )
    op.create_index("jobs_by_age", "jobs", ["created", "id"], unique=False)
    op.create_index("jobs_by_request", "jobs", ["request", "created"], unique=False)
    op.create_index("jobs_by_state", "jobs", ["state", "created", "id"], unique=False)
    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("graph", sa.String(length=80), nullable=False),
        sa.Column("topology", sa.String(length=80), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["graph"], ["documents.id"], name=op.f("plans_graph_names_documents")
        ),
        sa.ForeignKeyConstraint(["id"], ["documents.id"], name=op.f("plans_id_names_documents")),
        sa.ForeignKeyConstraint(
            ["topology"], ["documents.id"], name=op.f("plans_topology_names_documents")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("plans_key")),
    )
    op.create_index("plans_by_age", "plans", ["created", "id"], unique=False)
    op.create_index("plans_by_graph", "plans", ["graph", "created", "id"], unique=False)
    op.create_index("plans_by_topology", "plans", ["topology", "created", "id"], unique=False)
    op.create_table(
        "job_events",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("job_events_job_names_jobs")),
        sa.PrimaryKeyConstraint("job", "seq", name=op.f("job_events_key")),
    )
    # ### end Alembic commands ###


def downgrade() -> None:
    for table in ("job_events", "jobs", "plans", "documents"):
        op.drop_table(table)
