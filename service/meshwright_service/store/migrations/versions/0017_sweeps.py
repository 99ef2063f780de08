"""Sweeps, and the figures of plans that lists are sorted and filtered by.

Revision: 0017, after 0016
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

NUMBERS = ("step_ns", "headroom", "devices", "batch", "units_per_s", "device_rate", "utilization")
AT_ONCE = 500


def upgrade() -> None:
    op.create_table(
        "sweeps",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("key", sa.String(80), nullable=True),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("cancelled", sa.Float(precision=53), nullable=True),
        sa.Column("graph", sa.String(80), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("points", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["key"], ["keys.id"], name="sweeps_key_names_keys"),
        sa.ForeignKeyConstraint(["graph"], ["documents.id"], name="sweeps_graph_names_documents"),
        sa.PrimaryKeyConstraint("tenant", "id", name="sweeps_key"),
    )
    op.create_index("sweeps_by_age", "sweeps", ["tenant", "created", "id"])
    op.create_index("sweeps_of_graph", "sweeps", ["graph"])
    for column in NUMBERS:
        # plain SQL for both databases: a batch rebuilds the table, which others refer to
        op.execute(f"ALTER TABLE plans ADD COLUMN {column} FLOAT")
    op.execute("ALTER TABLE plans ADD COLUMN target VARCHAR(40) DEFAULT '' NOT NULL")
    _fill()


def downgrade() -> None:
    op.drop_table("sweeps")
    for column in (*NUMBERS, "target"):
        op.execute(f"ALTER TABLE plans DROP COLUMN {column}")


def _fill() -> None:
    """Set the step and the headroom of stored plans; their summaries have no other figures."""
    connection = op.get_bind()
    after = ("", "")
    while True:
        rows = connection.execute(
            sa.text(
                "SELECT tenant, id, summary FROM plans WHERE tenant > :tenant OR "
                "(tenant = :tenant AND id > :id) ORDER BY tenant, id LIMIT :count"
            ),
            {"tenant": after[0], "id": after[1], "count": AT_ONCE},
        ).all()
        for tenant, id_, text in rows:
            summary: dict[str, Any] = json.loads(text) if isinstance(text, str) else text
            capacity = summary.get("capacity_bytes")
            values = {
                "step_ns": summary.get("step_ns"),
                "headroom": 1 - summary["memory_bytes"] / capacity if capacity else None,
            }
            connection.execute(
                sa.text(
                    "UPDATE plans SET step_ns = :step_ns, headroom = :headroom "
                    "WHERE tenant = :tenant AND id = :id"
                ),
                {"tenant": tenant, "id": id_, **values},
            )
        if len(rows) < AT_ONCE:
            return
        after = (rows[-1][0], rows[-1][1])
