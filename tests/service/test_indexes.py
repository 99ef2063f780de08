"""Questions that are asked of many jobs are answered by an index, on both databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select, text

from service.tables import JobRow
from tests.service.job_table import Table


def way(table: Table, statement: Select[Any]) -> str:
    """How the database would answer, with its values in place."""
    with table.database.reading() as connection:
        postgresql = connection.dialect.name == "postgresql"
        if postgresql:
            connection.execute(text("SET LOCAL enable_seqscan = off"))  # it is empty
        asked = statement.compile(connection, compile_kwargs={"literal_binds": True})
        word = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
        return "\n".join(map(str, connection.execute(text(f"{word} {asked}"))))


def test_the_jobs_of_a_plan(table: Table) -> None:
    mine = select(JobRow.id).where(JobRow.tenant == "default", JobRow.plan == "plan_1")
    assert "jobs_by_plan" in way(table, mine)
    newest = mine.order_by(JobRow.created.desc(), JobRow.id.desc()).limit(1)
    assert "jobs_by_plan" in way(table, newest)
    assert "SORT" not in way(table, newest).upper()


def test_whether_any_job_names_a_document(table: Table) -> None:
    assert "jobs_by_plan" in way(table, select(JobRow.id).where(JobRow.plan == "plan_1"))
