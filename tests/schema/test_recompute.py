"""What a plan says that it does again names ops that it has, each once."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import PlanError
from meshwright.schema.recompute import Recomputed
from meshwright.schema.stage import Stage

SEGMENT = {"ops": ["a", "b"], "again": ["b"]}


def recomputed(*segments: dict[str, Any], policy: str = "full") -> dict[str, Any]:
    return {"policy": policy, "segments": list(segments)}


def stage(recompute: dict[str, Any]) -> Stage:
    ops = [
        {"op": name, "kind": "relu", "rule": "n -> n", "strategy": {}, "compute_ns": 1.0}
        for name in ("a", "b", "c")
    ]
    return Stage.model_validate(
        {
            "mesh": {"axes": []},
            "ops": ops,
            "tensors": [],
            "parameters": [],
            "redistributions": [],
            "recompute": recompute,
        }
    )


def test_segments_of_a_stages_own_ops_are_taken() -> None:
    own = stage(recomputed(SEGMENT, {"ops": ["c"], "again": ["c"]})).recompute
    assert own is not None
    assert [segment.again for segment in own.segments] == [("b",), ("c",)]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (recomputed({"ops": ["a"], "again": ["b"]}), "repeats 'b', which is not one of its ops"),
        (recomputed({"ops": ["a"], "again": ["a", "a"]}), "repeats 'a' twice"),
        (recomputed(SEGMENT, SEGMENT), "'a' is listed twice"),
        (recomputed({"ops": ["a", "a"], "again": ["a"]}), "'a' is listed twice"),
        (recomputed(SEGMENT, policy="none"), "recompute none has no segments"),
    ],
)
def test_segments_that_contradict_themselves_are_refused(
    said: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        Recomputed.model_validate(said)


def test_segments_with_ops_that_the_stage_has_not_are_refused() -> None:
    with pytest.raises(PlanError, match="'nowhere', which the stage does not have"):
        stage(recomputed({"ops": ["a", "nowhere"], "again": ["a"]}))
