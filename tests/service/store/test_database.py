"""The schema of the database and what the migrations make of it."""

from __future__ import annotations

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, select, text

from meshwright.schema.canonical import digest
from meshwright_service.store.database import Database, OldSchema
from meshwright_service.store.tables import Base, JobRow
from tests.service.conftest import ROOT


def test_the_migrations_make_what_the_tables_say(empty: str) -> None:
    database = Database(empty)
    assert not database.is_current()
    database.upgrade()
    assert database.is_current()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    database.upgrade()  # again is no harm
    database.close()


def migrated_to(empty: str, revision: str) -> tuple[Database, Config]:
    """A store as a revision left it, and what migrates it."""
    database = Database(empty)
    config = Config()
    config.set_main_option(
        "script_location", str(ROOT / "service" / "meshwright_service" / "store" / "migrations")
    )
    config.set_main_option("path_separator", "os")
    with database.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    return database, config


def store_of(empty: str, revision: str) -> tuple[Database, Config]:
    """A store as a revision before tenants left it, with a job; and what migrates it."""
    database, config = migrated_to(empty, revision)
    with database.writing() as connection:
        connection.execute(text("INSERT INTO documents VALUES ('g', 'graph', '', 1, 2, '{}', '')"))
        connection.execute(
            text(
                "INSERT INTO jobs (id, request, graph, topology, asked, state, attempt, losses, "
                "created) VALUES ('j', 'r', 'g', 'g', '{}', 'queued', 0, 0, 1)"
            )
        )
    return database, config


def test_a_store_of_the_first_storey_keeps_its_jobs(empty: str) -> None:
    database, _ = store_of(empty, "0001")
    database.upgrade()
    with database.reading() as connection:
        row = connection.execute(select(JobRow.__table__)).one()
    assert (row.id, row.verify, row.certificate) == ("j", False, None)
    assert (row.seconds, row.ended_early) == (None, False)
    database.close()


def test_two_services_that_start_together_migrate_once(empty: str) -> None:
    databases = [Database(empty) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda database: database.upgrade(), databases))
    for database in databases:
        assert database.is_current()
        database.close()


def test_a_transaction_that_fails_leaves_nothing(empty: str) -> None:
    database = Database(empty)
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE t (a INTEGER)"))

    def insert_and_fail() -> None:
        with database.writing() as connection:
            connection.execute(text("INSERT INTO t VALUES (1)"))
            raise KeyError

    with pytest.raises(KeyError):
        insert_and_fail()
    with database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar() == 0
    database.close()


def test_the_clock_counts_seconds_since_1970(empty: str) -> None:
    database = Database(empty)
    before = time.time()
    with database.reading() as connection:
        now = connection.execute(select(database.now)).scalar_one()
    assert before - 1 <= now <= time.time() + 1
    database.close()


def test_a_connection_in_use_is_closed_when_it_is_given_back_after_the_end(empty: str) -> None:
    database = Database(empty)
    with database.engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        database.close()
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    with pytest.raises((psycopg.OperationalError, sqlite3.ProgrammingError), match="closed"):
        raw.cursor().execute("SELECT 1")


def test_another_database_is_refused() -> None:
    with pytest.raises(ValueError, match="not supported"):
        Database("mysql://localhost/x")


def test_jobs_and_their_events_outlive_the_coming_of_agents(empty: str) -> None:
    database, config = store_of(empty, "0004")
    with database.writing() as connection:
        connection.execute(text("INSERT INTO job_events VALUES ('j', 1, 1.5, 0, '{}')"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
        row = connection.execute(text("SELECT id, kind, graph, agent FROM jobs")).one()
        assert (row.id, row.kind, row.graph, row.agent) == ("j", "plan", "g", None)
        events = "SELECT job, seq, at FROM job_events"
        assert connection.execute(text(events)).all() == [("j", 1, 1.5)]
        connection.execute(
            text(
                "INSERT INTO jobs (id, kind, request, asked, state, attempt, losses, created) "
                "VALUES ('m', 'measurement', 'm', '{}', 'queued', 0, 0, 1)"
            )
        )
        command.downgrade(config, "0004")
        assert connection.execute(text("SELECT id, graph FROM jobs")).all() == [("j", "g")]
        assert connection.execute(text(events)).all() == [("j", 1, 1.5)]
    database.upgrade()
    assert database.is_current()
    database.close()


OLDER = (
    "INSERT INTO documents VALUES ('p', 'plan', '', 1, 2, '{}', '')",
    "INSERT INTO plans VALUES ('p', 2, 'g', 'g', '{}')",
    "INSERT INTO certificates VALUES ('p', 'c', 3, 'verified', '{}')",
    "INSERT INTO observations VALUES ('o', 'p', 'g', 'c', 's', 4, 1.5, '{}')",
    "INSERT INTO agents VALUES ('a', 5, 6, 'gloo', '{}')",
    "INSERT INTO job_events VALUES ('j', 1, 1.5, 0, '{}')",
    "UPDATE jobs SET agent = 'a', plan = 'p', verify = true, seconds = '[1.5]'",
)
TABLES = ("documents", "plans", "certificates", "observations", "agents", "jobs", "job_events")


def rows(connection: Connection) -> list[dict[str, Any]]:
    """Everything in the tables, whatever the order of columns."""
    found = (connection.execute(text(f"SELECT * FROM {name}")) for name in TABLES)
    return [dict(row) for table in found for row in table.mappings()]


def test_what_was_there_before_tenants_is_the_default_ones_and_comes_back_alone(
    empty: str,
) -> None:
    database, config = store_of(empty, "0005")
    with database.writing() as connection:
        for statement in OLDER:
            connection.execute(text(statement))
        before = rows(connection)
    database.upgrade()
    with database.writing() as connection:
        held = "SELECT id FROM holdings WHERE tenant = 'default' ORDER BY id"
        assert connection.execute(text(held)).scalars().all() == ["g", "p"]
        for name in ("plans", "certificates", "observations", "agents", "jobs"):
            owners = connection.execute(text(f"SELECT tenant FROM {name}")).scalars().all()
            assert owners == ["default"], name
        for statement in (
            "INSERT INTO documents VALUES ('x', 'graph', '', 1, 2, '{}', '')",
            "INSERT INTO holdings VALUES ('other', 'x', 'graph', 1)",
            "INSERT INTO jobs (id, tenant, request, graph, asked, state, attempt, losses, created) "
            "VALUES ('k', 'other', 'r', 'x', '{}', 'queued', 0, 0, 1)",
            "INSERT INTO job_events VALUES ('k', 1, 1.5, 0, '{}')",
        ):
            connection.execute(text(statement))
        config.attributes["connection"] = connection
        command.downgrade(config, "0005")
        assert rows(connection) == before
    database.upgrade()
    assert database.is_current()
    database.close()


def test_only_sqlite_is_brought_up_to_date_by_itself(empty: str) -> None:
    database = Database(empty)
    if database.dialect == "sqlite":
        database.open()
    else:
        with pytest.raises(OldSchema, match="db upgrade"):
            database.open()
        database.upgrade()
        database.open()
    assert database.is_current()
    database.close()


def test_jobs_of_earlier_versions_are_found_by_their_inputs(empty: str) -> None:
    database, config = store_of(empty, "0002")
    options = {"graph": "graph_1", "topology": "topo_1", "budget": {"seconds": 3.5}}
    with database.writing() as connection:
        connection.execute(text("UPDATE jobs SET asked = :asked"), {"asked": json.dumps(options)})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        assert connection.execute(select(JobRow.inputs)).scalar_one() == digest("inputs", options)
    database.close()
