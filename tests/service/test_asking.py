"""What searches considered can be asked for: what they say of it is read as they meant it."""

from __future__ import annotations

import pytest

from meshwright.schema import Request
from meshwright.schema.pipeline import ScheduleKind
from service.asking import asking_for
from solver.pipeline.configurations import Configuration
from solver.pipeline.placement import Share
from tests.service.samples import REQUEST


@pytest.mark.parametrize(
    ("schedule", "stages"), [("1f1b", 1), ("zb_h1", 1), ("interleaved_1f1b", 3), ("zb_v", 2)]
)
def test_a_pipeline(schedule: ScheduleKind, stages: int) -> None:
    own = Configuration(ranks=16, schedule=schedule, stages_per_rank=stages, microbatches=64)
    asked = asking_for(str(own))
    assert asked is not None
    request = Request.from_dict({**REQUEST, **asked})
    assert (request.pipeline.ranks, request.pipeline.schedule) == (16, schedule)
    assert request.pipeline.stages_per_rank == (stages if stages > 1 else None)
    assert request.setup.microbatches == 64


def test_where_stages_lie_cannot_be_asked_for() -> None:
    placed = Configuration(
        ranks=2, schedule="1f1b", stages_per_rank=1, microbatches=4,
        placement=(Share(0, 1), Share(1, 1)), on=("a", "b"),
    )  # fmt: skip
    assert asking_for(str(placed)) is None


def test_recompute_and_copies() -> None:
    for text, part in [
        ("recompute full, 8 microbatches", {"recompute": {"policy": "full"}}),
        ("copies 2", {"setup": {"copies": 2}}),
    ]:
        asked = asking_for(text)
        assert asked is not None
        assert part.items() <= asked.items()
        Request.from_dict({**REQUEST, **asked})
    assert asking_for("recompute full (12), 8 microbatches") is None
