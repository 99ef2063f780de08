"""Keys and tenants; existing rows belong to the tenant "default".

SQLite cannot change the key of a table, so tables whose keys gain the tenant are created again and
their rows copied. The documents are unchanged. The downgrade keeps only the tenant "default".

Revision: 0006, after 0005
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# referenced tables first
CHANGED = ("agents", "plans", "certificates", "observations", "jobs", "job_events")
REFERRED = {"graph": "documents", "topology": "documents", "plan": "documents",
            "samples": "documents", "calibration": "documents"}  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "keys",
        _id("id"), _tenant(), _text("name"), sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False), _json("scopes"), _number("created"),
        _number("expires", nullable=True), _number("used", nullable=True),
        _number("revoked", nullable=True), sa.PrimaryKeyConstraint("id", name=op.f("keys_key")),
    )  # fmt: skip
    op.create_index("keys_by_age", "keys", ["tenant", "created", "id"])
    op.create_index(op.f("keys_by_prefix"), "keys", ["prefix"])
    op.create_table(
        "holdings",
        _tenant(), _id("id"), sa.Column("kind", sa.String(16), nullable=False), _number("created"),
        _refers("holdings", "id", "documents"),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("holdings_key")),
    )  # fmt: skip
    op.execute(
        "INSERT INTO holdings (tenant, id, kind, created) "
        "SELECT 'default', id, kind, created FROM documents"
    )
    op.create_index("holdings_by_age", "holdings", ["tenant", "kind", "created", "id"])
    op.drop_index("documents_by_age", "documents")
    _put_aside("")
    for table in CHANGED:
        op.create_table(table, *COLUMNS[table](), *_keys(table), *_constraints(table))
        _bring_back(table, by_tenant=table != "job_events")
    for table, name, columns in INDEXES:
        op.create_index(name, table, ["tenant", *columns])
    op.create_index("jobs_by_kind", "jobs", ["kind", "state", "created", "id"])
    op.create_index("jobs_by_lease", "jobs", ["state", "lease_until"])


def downgrade() -> None:
    _put_aside(" WHERE tenant = 'default'")
    op.execute(
        "DELETE FROM held_job_events WHERE NOT EXISTS "
        "(SELECT 1 FROM held_jobs WHERE held_jobs.id = held_job_events.job)"
    )
    for table in CHANGED:
        op.create_table(table, *COLUMNS[table](), *_older_constraints(table))
        _bring_back(table, by_tenant=False)
    for table, name, columns in INDEXES:
        op.create_index(name, table, columns)
    op.create_index("jobs_by_kind", "jobs", ["kind", "state", "created", "id"])
    op.execute("DELETE FROM holdings WHERE tenant <> 'default'")
    op.execute(
        "CREATE TABLE others AS SELECT id FROM documents WHERE NOT EXISTS "
        "(SELECT 1 FROM holdings WHERE holdings.id = documents.id)"
    )
    op.drop_table("holdings")
    op.drop_table("keys")
    op.execute("DELETE FROM documents WHERE id IN (SELECT id FROM others)")
    op.drop_table("others")
    op.create_index("documents_by_age", "documents", ["kind", "created", "id"])


def _put_aside(which: str) -> None:
    for table in reversed(CHANGED):
        only = "" if table == "job_events" else which
        names = ", ".join(f'"{column.name}"' for column in COLUMNS[table]())
        op.execute(f"CREATE TABLE held_{table} AS SELECT {names} FROM {table}{only}")
        op.drop_table(table)


def _bring_back(table: str, *, by_tenant: bool) -> None:
    names = ", ".join(f'"{column.name}"' for column in COLUMNS[table]())
    into, of = (f"tenant, {names}", f"'default', {names}") if by_tenant else (names, names)
    op.execute(f"INSERT INTO {table} ({into}) SELECT {of} FROM held_{table}")
    op.drop_table(f"held_{table}")


def _keys(table: str) -> list[sa.Column[Any]]:
    """The new columns: tenant and key."""
    by_key = [_id("key", nullable=True)] if table in ("agents", "jobs") else []
    return [] if table == "job_events" else [_tenant(), *by_key]


def _constraints(table: str) -> list[sa.Constraint]:
    match table:
        case "agents":
            return [_key(table, "tenant", "id"), _refers(table, "key", "keys")]
        case "plans":
            return [_key(table, "tenant", "id"), *_of_plans()]
        case "certificates":
            return [_key(table, "tenant", "plan"), _refers_within(table, "plan", "plans")]
        case "observations":
            return [_key(table, "tenant", "id"), _refers_within(table, "plan", "plans")]
        case "jobs":
            within = _refers_within(table, "agent", "agents")
            return [_key(table, "id"), _refers(table, "key", "keys"), within, *_of_jobs()]
    return _of_events()


def _older_constraints(table: str) -> list[sa.Constraint]:
    match table:
        case "agents":
            return [_key(table, "id")]
        case "plans":
            return [_key(table, "id"), *_of_plans()]
        case "certificates":
            return [_key(table, "plan"), _refers(table, "plan", "plans")]
        case "observations":
            return [_key(table, "id"), _refers(table, "plan", "plans")]
        case "jobs":
            return [_key(table, "id"), _refers(table, "agent", "agents"), *_of_jobs()]
    return _of_events()


def _of_plans() -> list[sa.Constraint]:
    return [_refers("plans", column, "documents") for column in ("id", "graph", "topology")]


def _of_jobs() -> list[sa.Constraint]:
    return [_refers("jobs", column, table) for column, table in REFERRED.items()]


def _of_events() -> list[sa.Constraint]:
    return [_key("job_events", "job", "seq"), _refers("job_events", "job", "jobs")]


def _key(table: str, *columns: str) -> sa.Constraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"{table}_key"))


def _refers(table: str, column: str, to: str) -> sa.Constraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{to}.id"], name=op.f(f"{table}_{column}_names_{to}")
    )


def _refers_within(table: str, column: str, to: str) -> sa.Constraint:
    name = op.f(f"{table}_tenant_names_{to}")
    return sa.ForeignKeyConstraint(["tenant", column], [f"{to}.tenant", f"{to}.id"], name=name)


def _id(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String(80), nullable=nullable)


def _tenant() -> sa.Column[Any]:
    return sa.Column("tenant", sa.String(64), nullable=False)


def _word(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String(16), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Float(precision=53), nullable=nullable)


def _json(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON(), nullable=nullable)


# the columns before this revision
COLUMNS: dict[str, Callable[[], list[sa.Column[Any]]]] = {
    "agents": lambda: [_id("id"), _number("created"), _number("heard"), _word("backend"),
                       _json("body")],
    "plans": lambda: [_id("id"), _number("created"), _id("graph"), _id("topology"),
                      _json("summary")],
    "certificates": lambda: [_id("plan"), _id("id"), _number("created"), _word("outcome"),
                             _json("body")],
    "observations": lambda: [_id("id"), _id("plan"), _id("topology"), _id("calibration"),
                             _text("stack"), _number("created"), _number("ratio"), _json("body")],
    "job_events": lambda: [
        _id("job"), sa.Column("seq", sa.Integer(), nullable=False), _number("at"),
        sa.Column("attempt", sa.Integer(), nullable=False), _json("body"),
    ],
    "jobs": lambda: [
        _id("id"), sa.Column("kind", sa.String(16), server_default="plan", nullable=False),
        _id("request"), _id("graph", nullable=True), _id("topology", nullable=True),
        _json("asked"), _word("state"), sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False), _id("worker", nullable=True),
        _number("lease_until", nullable=True), _number("created"),
        _number("started", nullable=True), _number("finished", nullable=True),
        _json("progress", nullable=True), _word("outcome", nullable=True),
        _id("plan", nullable=True), _json("infeasible", nullable=True),
        _json("problem", nullable=True), _text("trace", nullable=True),
        sa.Column("verify", sa.Boolean(), server_default=sa.false(), nullable=False),
        _json("certificate", nullable=True), _json("seconds", nullable=True),
        sa.Column("ended_early", sa.Boolean(), server_default=sa.false(), nullable=False),
        _id("agent", nullable=True), _word("backend", nullable=True),
        _id("samples", nullable=True), _id("calibration", nullable=True),
    ],
}  # fmt: skip
# equal before and after, except for the leading tenant
INDEXES = (
    ("agents", "agents_by_age", ["created", "id"]),
    ("plans", "plans_by_age", ["created", "id"]),
    ("plans", "plans_by_graph", ["graph", "created", "id"]),
    ("plans", "plans_by_topology", ["topology", "created", "id"]),
    ("observations", "observations_by_plan", ["plan", "created", "id"]),
    ("observations", "observations_by_calibration", ["calibration", "topology", "created"]),
    ("jobs", "jobs_by_age", ["created", "id"]),
    ("jobs", "jobs_by_state", ["state", "created", "id"]),
    ("jobs", "jobs_by_request", ["request", "created"]),
)
