"""Copies of documents with other values: what follows from the fields follows from the new ones."""

from __future__ import annotations

import pytest

from meshwright.schema import Setup
from meshwright.schema.canonical import digest_of_text
from meshwright.schema.json_writer import written_canonically

CHANGES = ({"gradients": "sum"}, {"global_batch": 7}, {"microbatches": 3, "phase": "inference"})


@pytest.mark.parametrize("changes", CHANGES)
def test_a_copy_has_the_id_of_its_own_fields(changes: dict[str, object]) -> None:
    setup = Setup()
    assert setup.id == Setup().id  # the id is cached from now on
    for copy in (setup.like(**changes), setup.model_copy(update=changes)):
        assert copy.id == Setup.from_dict(changes).id != setup.id
        assert copy.id == digest_of_text(Setup.prefix, written_canonically(copy))


def test_a_copy_without_changes_has_the_same_id() -> None:
    setup = Setup(global_batch=5)
    assert setup.id == setup.model_copy().id == setup.like().id
