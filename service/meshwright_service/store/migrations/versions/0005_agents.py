"""Agents, and measurement jobs: without graph and topology, with samples and a calibration.

SQLite rebuilds a table to make a column nullable, and cannot drop a table that others refer to. The
job events are therefore copied to another table and back.

Revision: 0005, after 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
MEASURED = ("agent", "backend", "samples", "calibration")
BY_KIND = "jobs_by_kind"


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("heard", sa.Float(precision=53), nullable=False),
        sa.Column("backend", sa.String(length=16), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("agents_key")),
    )
    op.create_index("agents_by_age", "agents", ["created", "id"])
    _put_events_aside()
    with op.batch_alter_table("jobs") as jobs:
        jobs.alter_column("graph", existing_type=sa.String(length=80), nullable=True)
        jobs.alter_column("topology", existing_type=sa.String(length=80), nullable=True)
        jobs.add_column(
            sa.Column("kind", sa.String(length=16), server_default="plan", nullable=False)
        )
        jobs.add_column(sa.Column("agent", sa.String(length=80), nullable=True))
        jobs.add_column(sa.Column("backend", sa.String(length=16), nullable=True))
        jobs.add_column(sa.Column("samples", sa.String(length=80), nullable=True))
        jobs.add_column(sa.Column("calibration", sa.String(length=80), nullable=True))
        for column, table in (("agent", "agents"), ("samples", "documents"),
                              ("calibration", "documents")):  # fmt: skip
            name = op.f(f"jobs_{column}_names_{table}")
            jobs.create_foreign_key(name, table, [column], ["id"])
    op.create_index(BY_KIND, "jobs", ["kind", "state", "created", "id"])
    _bring_events_back()


def downgrade() -> None:
    op.execute(
        "DELETE FROM job_events WHERE job IN (SELECT id FROM jobs WHERE kind = 'measurement')"
    )
    op.execute("DELETE FROM jobs WHERE kind = 'measurement'")
    op.drop_index(BY_KIND, "jobs")
    _put_events_aside()
    with op.batch_alter_table("jobs") as jobs:
        for column, table in (("agent", "agents"), ("samples", "documents"),
                              ("calibration", "documents")):  # fmt: skip
            jobs.drop_constraint(op.f(f"jobs_{column}_names_{table}"), type_="foreignkey")
        for column in ("kind", *MEASURED):
            jobs.drop_column(column)
        jobs.alter_column("graph", existing_type=sa.String(length=80), nullable=False)
        jobs.alter_column("topology", existing_type=sa.String(length=80), nullable=False)
    _bring_events_back()
    op.drop_table("agents")


def _put_events_aside() -> None:
    op.execute("CREATE TABLE held_events AS SELECT job, seq, at, attempt, body FROM job_events")
    op.drop_table("job_events")


def _bring_events_back() -> None:
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
    op.execute(
        "INSERT INTO job_events (job, seq, at, attempt, body) "
        "SELECT job, seq, at, attempt, body FROM held_events"
    )
    op.drop_table("held_events")
