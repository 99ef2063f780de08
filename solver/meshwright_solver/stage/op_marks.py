"""Marks that distinguish ops which look alike, so that folding does not merge them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from meshwright.schema import Request
from meshwright_solver.constraints.pins import matching_pins
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.strategies.sparse_tables import sparse_lookups
from meshwright_solver.strategies.unsharded_parameters import unsharded_parameters


def marks_of(request: Request) -> Mapping[str, Hashable]:
    """By name of op, the request's statements: a pin, a lookup with sparse gradients, and inputs
    that are not sharded at rest."""
    pins = matching_pins(request.graph, request.pins, request.module)
    sparse, unsharded = sparse_lookups(request), _unsharded_inputs(request)
    if not sparse and not unsharded:
        return pins
    return {
        name: (pins.get(name), name in sparse, unsharded.get(name))
        for name in {*pins, *sparse, *unsharded}
    }


def _unsharded_inputs(request: Request) -> dict[str, tuple[int, ...]]:
    """By name of op, the positions of parameters that the request leaves unsharded."""
    names = unsharded_parameters(request)
    if not names:
        return {}
    ports = {
        op.name: tuple([k for k, name in enumerate(op.inputs) if name in names])
        for op in request.graph.ops
    }
    return {name: found for name, found in ports.items() if found}


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
