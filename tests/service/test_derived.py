"""What is worked out from documents is kept beside them and goes with them; no answer needs it."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select, text

from meshwright.schema import Plan
from service import deletion, derived, documents
from service.packing import pack
from service.principals import DEFAULT, Tenant
from service.tables import DerivedRow
from tests.service.job_table import Table

PARTS = {0: b"first", 7: b"seventh" * 100}
PACKED = {part: pack(body) for part, body in PARTS.items()}


@pytest.fixture
def stored(table: Table, plan: Plan) -> str:
    with table.database.writing() as connection:
        documents.put(connection, DEFAULT, plan, now=table.database.now)
    return plan.id


def count(table: Table) -> int:
    with table.database.reading() as connection:
        return connection.execute(select(func.count()).select_from(DerivedRow)).scalar_one()


def test_parts_are_found_by_name_and_number(table: Table, stored: str) -> None:
    derived.keep(table.database, DEFAULT, stored, "one", PACKED)
    derived.keep(table.database, DEFAULT, stored, "one", {0: pack(b"later")})  # the first stays
    derived.keep(table.database, DEFAULT, stored, "other", {0: pack(b"another")})
    with table.database.reading() as connection:
        assert derived.read(connection, DEFAULT, stored, "one", [0, 3, 7]) == PARTS
        assert derived.read(connection, DEFAULT, stored, "other", [0]) == {0: b"another"}
        assert derived.read(connection, DEFAULT, "plan_0", "one", [0]) == {}
        assert derived.read(connection, Tenant("other"), stored, "one", [0]) == {}


def test_it_goes_with_its_document(table: Table, stored: str) -> None:
    derived.keep(table.database, DEFAULT, stored, "one", PACKED)
    with table.database.writing() as connection:
        deletion.let_go(connection, [(DEFAULT, stored)])
    assert count(table) == 0


def test_of_what_is_gone_nothing_is_kept(table: Table) -> None:
    derived.keep(table.database, DEFAULT, "plan_0", "one", PACKED)
    assert count(table) == 0


def test_a_store_that_takes_nothing_harms_no_answer(
    table: Table, stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    with table.database.writing() as connection:
        connection.execute(text("DROP TABLE derived"))
    derived.keep(table.database, DEFAULT, stored, "one", PACKED)
    assert "could not be kept" in caplog.text
