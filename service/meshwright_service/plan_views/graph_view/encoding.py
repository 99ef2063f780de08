"""Encoding of the graph view: its arrays in one part, the facts of ops in several."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter

from meshwright.reports.ops import OpShare
from meshwright_service.plan_views.graph_view.build import drawing_of
from meshwright_service.plan_views.graph_view.op_details import OpFacts

OPS = 256  # in one part; chosen: parsed in a millisecond
FACTS = TypeAdapter(list[OpFacts])


def parts_of(shares: Sequence[OpShare]) -> dict[int, bytes]:
    """The parts of the graph view of a plan: part 0 is the arrays, the others are facts of ops."""
    drawing, facts = drawing_of(shares)
    parts = {0: drawing.to_bytes()}
    for start in range(0, len(facts), OPS):
        part_facts = facts[start : start + OPS]
        parts[part_of(start)] = FACTS.dump_json(part_facts, exclude_defaults=True)
    return parts


def part_of(op: int) -> int:
    """The number of the part with the facts of an op."""
    return 1 + op // OPS


def facts_in(part: int, content: bytes) -> dict[int, OpFacts]:
    """The facts of a part, by op."""
    return dict(enumerate(FACTS.validate_json(content), start=(part - 1) * OPS))
