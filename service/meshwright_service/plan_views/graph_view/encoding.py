"""A drawing as it is kept beside its plan: the drawing in one part, facts of ops in many."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter

from meshwright.reports.ops import OpShare
from meshwright_service.plan_views.graph_view.build import drawing_of
from meshwright_service.plan_views.graph_view.op_details import OpFacts

OPS = 256  # of a part; chosen: read in a millisecond
FACTS = TypeAdapter(list[OpFacts])


def parts_of(shares: Sequence[OpShare]) -> dict[int, bytes]:
    """The drawing of a plan in its parts, the first of which is all but the facts."""
    drawing, facts = drawing_of(shares)
    parts = {0: drawing.to_bytes()}
    for start in range(0, len(facts), OPS):
        own = facts[start : start + OPS]
        parts[part_of(start)] = FACTS.dump_json(own, exclude_defaults=True)
    return parts


def part_of(op: int) -> int:
    """In which part the facts of an op are."""
    return 1 + op // OPS


def facts_in(part: int, content: bytes) -> dict[int, OpFacts]:
    """The facts of a part, by op."""
    return dict(enumerate(FACTS.validate_json(content), start=(part - 1) * OPS))
