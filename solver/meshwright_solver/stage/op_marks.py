"""Marks that distinguish ops which look alike, so that folding does not merge them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from meshwright.schema import Request
from meshwright_solver.constraints.pins import matching_pins
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.strategies.sparse_tables import sparse_lookups


def marks_of(request: Request) -> Mapping[str, Hashable]:
    """By name of op, the request's statements: a pin, and a lookup with sparse gradients."""
    pins = matching_pins(request.graph, request.pins, request.module)
    sparse = sparse_lookups(request)
    if not sparse:
        return pins
    return {name: (pins.get(name), name in sparse) for name in {*pins, *sparse}}


def marked(marks: Mapping[str, Hashable], recompute: RecomputedOps) -> Mapping[str, Hashable]:
    """The marks, with the place of each op in its recomputed segment."""
    if not recompute:
        return marks
    with_places: dict[str, Hashable] = dict(marks)
    lengths: dict[int, int] = {}
    for op, segment in recompute.segment_of.items():
        place = lengths[segment] = lengths.get(segment, 0) + 1
        with_places[op] = (marks.get(op), place, op in recompute.again)
    return with_places
