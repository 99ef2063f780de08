"""Labels of plans, and the filter columns of plan lists: model, outcome, search, key.

Revision: 0009, after 0008
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ROWS = 500  # chosen: summaries in one statement


def upgrade() -> None:
    op.add_column("plans", sa.Column("model", sa.Text(), nullable=False, server_default=""))
    op.add_column("plans", sa.Column("outcome", sa.String(16), nullable=False, server_default=""))
    op.add_column("plans", sa.Column("solver", sa.String(40), nullable=False, server_default=""))
    op.add_column("plans", sa.Column("key", sa.String(80), nullable=True))
    op.create_table(
        "labels",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("plan", sa.String(80), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "plan", "label", name="labels_key"),
        sa.ForeignKeyConstraint(
            ["tenant", "plan"],
            ["plans.tenant", "plans.id"],
            name="labels_tenant_names_plans",
            ondelete="CASCADE",
        ),
    )
    op.create_index("labels_by_label", "labels", ["tenant", "label", "plan"])
    op.create_index("plans_by_solver", "plans", ["tenant", "solver", "created", "id"])
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    """Fill the new columns of existing plans from their summaries and jobs."""
    plans = sa.table(
        "plans", *map(sa.column, ("tenant", "id", "model", "outcome", "solver", "key")),
        sa.column("summary", sa.JSON()),
    )  # fmt: skip
    jobs = sa.table("jobs", *map(sa.column, ("tenant", "plan", "key", "created")))
    after = ("", "")
    while True:
        rows = connection.execute(
            sa.select(plans.c.tenant, plans.c.id, plans.c.summary)
            .where(sa.tuple_(plans.c.tenant, plans.c.id) > sa.tuple_(*map(sa.literal, after)))
            .order_by(plans.c.tenant, plans.c.id)
            .limit(ROWS)
        ).all()
        for row in rows:
            summary = json.loads(row.summary) if isinstance(row.summary, str) else row.summary
            connection.execute(
                sa.update(plans)
                .where(plans.c.tenant == row.tenant, plans.c.id == row.id)
                .values(
                    model=summary.get("name", ""),
                    outcome=summary.get("outcome", ""),
                    solver=summary.get("solver", ""),
                    key=sa.select(jobs.c.key)
                    .where(jobs.c.tenant == row.tenant, jobs.c.plan == row.id)
                    .order_by(jobs.c.created)
                    .limit(1)
                    .scalar_subquery(),
                )
            )
        if len(rows) < ROWS:
            return
        after = rows[-1].tenant, rows[-1].id


def downgrade() -> None:
    op.drop_table("labels")
    op.drop_index("plans_by_solver", "plans")
    for column in ("key", "solver", "outcome", "model"):
        op.drop_column("plans", column)
