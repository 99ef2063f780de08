"""What is worked out from documents is kept beside them and goes with them; no answer needs it."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select, text

from meshwright.schema import Plan
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant
from meshwright_service.common.zstd import pack
from meshwright_service.store import deletion, derived_documents, documents
from meshwright_service.store.tables import DerivedRow
from tests.service.job_table import Table

PARTS = {0: b"first", 7: b"seventh" * 100}
PACKED = {part: pack(body) for part, body in PARTS.items()}


@pytest.fixture
def stored(table: Table, plan: Plan) -> str:
    with table.database.writing() as connection:
        documents.put(connection, DEFAULT_TENANT, plan, now=table.database.now)
    return plan.id


def count(table: Table) -> int:
    with table.database.reading() as connection:
        return connection.execute(select(func.count()).select_from(DerivedRow)).scalar_one()


def test_parts_are_found_by_name_and_number(table: Table, stored: str) -> None:
    derived_documents.keep(table.database, DEFAULT_TENANT, stored, "one", PACKED)
    derived_documents.keep(
        table.database, DEFAULT_TENANT, stored, "one", {0: pack(b"later")}
    )  # the first stays
    derived_documents.keep(table.database, DEFAULT_TENANT, stored, "other", {0: pack(b"another")})
    with table.database.reading() as connection:
        assert derived_documents.read(connection, DEFAULT_TENANT, stored, "one", [0, 3, 7]) == PARTS
        assert derived_documents.read(connection, DEFAULT_TENANT, stored, "other", [0]) == {
            0: b"another"
        }
        assert derived_documents.read(connection, DEFAULT_TENANT, "plan_0", "one", [0]) == {}
        assert derived_documents.read(connection, Tenant("other"), stored, "one", [0]) == {}


def test_it_goes_with_its_document(table: Table, stored: str) -> None:
    derived_documents.keep(table.database, DEFAULT_TENANT, stored, "one", PACKED)
    with table.database.writing() as connection:
        deletion.let_go(connection, [(DEFAULT_TENANT, stored)])
    assert count(table) == 0


def test_of_what_is_gone_nothing_is_kept(table: Table) -> None:
    derived_documents.keep(table.database, DEFAULT_TENANT, "plan_0", "one", PACKED)
    assert count(table) == 0


def test_a_store_that_takes_nothing_harms_no_answer(
    table: Table, stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    with table.database.writing() as connection:
        connection.execute(text("DROP TABLE derived"))
    derived_documents.keep(table.database, DEFAULT_TENANT, stored, "one", PACKED)
    assert "could not be kept" in caplog.text
