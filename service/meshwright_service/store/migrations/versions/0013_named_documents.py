"""Indexes on the columns that refer to documents.

Revision: 0013, after 0012
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# document column first: each deletion looks for references of all tenants
INDEXES = {
    "jobs_by_plan": ("jobs", ["plan", "tenant", "created", "id"]),
    "jobs_of_graph": ("jobs", ["graph"]),
    "jobs_of_topology": ("jobs", ["topology"]),
    "jobs_of_samples": ("jobs", ["samples"]),
    "jobs_of_calibration": ("jobs", ["calibration"]),
    "holdings_of_document": ("holdings", ["id"]),
    "plans_of_document": ("plans", ["id"]),
    "plans_of_graph": ("plans", ["graph"]),
    "plans_of_topology": ("plans", ["topology"]),
}


def upgrade() -> None:
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table)
