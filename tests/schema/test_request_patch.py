"""Request patches in documents: of known fields, and of one canonical form."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import Considered, InvalidInput
from meshwright.schema.json_writer import written_canonically
from meshwright.schema.request_patch import joined

CONSIDERED = {"configuration": "two ranks", "estimated_ns": 1.0, "why": "slower"}


def considered(patch: dict[str, Any]) -> Considered:
    return Considered.model_validate({**CONSIDERED, "request_patch": patch})


def test_the_canonical_text_depends_on_no_order_and_keeps_null() -> None:
    one = considered({"setup": {"microbatches": 4}, "pipeline": {"ranks": 1, "schedule": None}})
    other = considered({"pipeline": {"schedule": None, "ranks": 1.0}, "setup": {"microbatches": 4}})
    assert written_canonically(one) == written_canonically(other)
    assert '"pipeline":{"ranks":1,"schedule":null}' in written_canonically(one)
    assert Considered.model_validate_json(written_canonically(one)) == one


def test_without_a_patch_nothing_is_written() -> None:
    assert "request_patch" not in written_canonically(Considered.model_validate(CONSIDERED))


def test_the_second_of_two_patches_wins() -> None:
    one = {"pipeline": {"ranks": 2}, "setup": {"microbatches": 4, "copies": 2}}
    other = {"setup": {"copies": 1}, "recompute": {"policy": "full"}}
    assert joined(considered(one).request_patch or {}, considered(other).request_patch or {}) == {
        "pipeline": {"ranks": 2},
        "setup": {"microbatches": 4, "copies": 1},
        "recompute": {"policy": "full"},
    }


@pytest.mark.parametrize(
    ("patch", "pointer"),
    [
        ({"graph": {"name": "another"}}, "/request_patch/graph"),
        ({"pipeline": 2}, "/request_patch/pipeline"),
        ({"pipeline": {"rank": 2}}, "/request_patch"),
        ({"setup": {"microbatches": [2]}}, "/request_patch/setup/microbatches"),
        ({"setup": {"microbatches": True}}, "/request_patch/setup/microbatches"),
    ],
)
def test_a_patch_is_of_fields_that_a_request_has(patch: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        considered(patch)
    assert refused.value.pointer == pointer
