"""Memory peaks of a stage, from an assignment of all its ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger
from meshwright_solver.evaluation.memory.event_order import EventOrder, Segments, order_of
from meshwright_solver.evaluation.memory.holding_tables import Holdings
from meshwright_solver.evaluation.memory.holdings import holdings_of
from meshwright_solver.evaluation.memory.peak import Moments, moments_of, rows_of
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.strategies.mesh_models import Models


def stage_order(models: Models, assignment: Assignment, *, split: bool = False) -> EventOrder:
    """Execution order of a stage for one microbatch."""
    problem = models.problem
    positions = np.array(sorted(assignment.ops), dtype=np.int64)
    names = {problem.ops[position].name: position for position in positions.tolist()}
    return _order(problem, positions, names, split=split)


def stage_moments(
    models: Models, assignment: Assignment, ledger: Ledger, *, split: bool = False
) -> Moments:
    """Memory peaks of a stage that is not folded. split: whether backward passes are split."""
    order = stage_order(models, assignment, split=split)
    held = holdings_of(
        models, assignment, ledger, AssignmentShare.all_of(models, assignment), order
    )
    ops = models.problem.ops
    rows = rows_of(order, [(held, np.arange(len(ops))[None])])
    return moments_of(order, lambda position: ops[position].name, *rows)


def folded_moments(
    problem: Problem, places: Mapping[str, int], held: Iterable[tuple[Holdings, IntArray]]
) -> Moments:
    """Memory peaks of a whole graph.

    places: by op. held: holdings of its parts, each with the places of its ops.
    """
    positions = np.array(sorted(places.values()), dtype=np.int64)
    order = _order(problem, positions, places, split=False)
    names = {place: name for name, place in places.items()}
    return moments_of(order, names.__getitem__, *rows_of(order, held))


def _order(
    problem: Problem, positions: IntArray, names: Mapping[str, int], *, split: bool
) -> EventOrder:
    return order_of(
        positions,
        training=problem.training,
        split=split,
        segments=_segments(problem.remade, names),
    )


def _segments(remade: RecomputedOps, names: Mapping[str, int]) -> Segments:
    return Segments(
        frozenset([names[name] for name in remade.again if name in names]),
        {names[name]: segment for name, segment in remade.segment_of.items() if name in names},
    )
