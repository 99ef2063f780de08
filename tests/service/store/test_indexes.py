"""Questions that are asked of many jobs are answered by an index, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Select, select, text

from meshwright_service.store.deletion import referring_to
from meshwright_service.store.tables import Base, JobRow
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


@pytest.mark.parametrize(
    "name",
    sorted(f"{key.table.name}.{key.columns.keys()[0]}" for key in referring_to("documents")),
)
def test_what_names_a_document(table: Table, name: str) -> None:
    """Each is looked through for every document that is deleted."""
    of, column = name.split(".")
    named = Base.metadata.tables[of].columns[column]
    index = next(own for own in named.table.indexes if own.columns.keys()[0] == column)
    assert str(index.name) in way(table, select(named).where(named == "plan_1"))
