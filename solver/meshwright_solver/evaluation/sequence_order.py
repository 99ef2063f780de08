"""Sequence order: the permutation of positions that balances causal attention.

Of p equal parts along the rows of a causal mask the last has (2 - 1/p) times the mean work. In the
order `zigzag`, part i has chunks i and 2p-1-i of 2p. Of n positions, row r attends to r + 1 keys.
The work of a chunk is the sum over its n/2p rows, so the work of both chunks together is the same
for every i. The order for p parts also balances every number of parts that divides p, because each
part is then a set of such pairs. Sequences stay contiguous if 2p does not divide them or their
sharding is uneven.

A plan is priced with balanced work only if `in_even_parts` holds for its number of parts.
`check_order` verifies that the plan declares a matching order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod

from meshwright.schema import (
    Calibration,
    Graph,
    Plan,
    PlanError,
    Setup,
    SetupError,
    Stage,
    Topology,
)
from meshwright.schema.sequence_order import SequenceOrder
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.sequence_classes import Sequences, rows_of
from meshwright_solver.strategies.op_model import in_even_parts


def whole_problem(
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration,
    microbatches: int | None = None,
) -> Problem:
    """Problem of the whole graph as one stage. Its ops do not depend on the devices."""
    return build_problem(graph, topology.groups[0], setup, calibration, microbatches)


def order_of(
    problem: Problem, rows: Sequences, stages: Sequence[Stage]
) -> tuple[SequenceOrder, ...]:
    """Sequence orders required by the stages of the whole graph; empty for unsharded sequences."""
    ways: list[list[int]] = [[] for _ in rows.sizes]
    for stage in stages:
        sizes = {axis.name: axis.size for axis in stage.mesh.axes}
        uneven = _uneven(problem, rows, stage)
        for op in stage.ops:
            part, number = rows.masked.get(op.op, ("", -1))
            shards = prod(sizes[axis] for axis in op.strategy.get(part, ()))
            if number >= 0 and number not in uneven and in_even_parts(rows.sizes[number], shards):
                ways[number].append(shards)
    orders = []
    for number, size in enumerate(rows.sizes):
        parts = lcm(*ways[number])
        if parts > 1:
            orders.append(
                SequenceOrder(
                    size=size,
                    chunks=2 * parts,
                    loaded=rows.loaded[number],
                    by_position=rows.by_position[number],
                    turned=rows.turned[number],
                )
            )
    return tuple(orders)


def _uneven(problem: Problem, rows: Sequences, stage: Stage) -> set[int]:
    """Sequences that a stage shards unevenly."""
    if stage.uneven == "refuse":
        return set()
    sizes = tuple(axis.size for axis in stage.mesh.axes)
    slots = rows.in_problem(problem)
    return {number for key, number in slots.items() if problem.uneven.span(key, sizes) is not None}


def with_order(plan: Plan, problem: Problem) -> Plan:
    """Plan with the sequence order that its sharding requires. problem: of the whole graph."""
    return plan.model_copy(update={"order": order_of(problem, rows_of(problem), plan.stages)})


def check_order(plan: Plan, problem: Problem) -> Sequences | None:
    """Sequences of a plan that declares an order; None if the setup requests none.

    Raises PlanError if the declared order does not match the sharding, or if the graph has no
    sequence to reorder. problem: of the whole graph.
    """
    if problem.setup.sequence_order == "contiguous":
        if plan.order:
            raise PlanError(
                "the plan has a sequence order, but its setup requests contiguous sequences"
            )
        return None
    try:
        rows = rows_of(problem)
    except SetupError as wrong:
        raise PlanError(f"the plan cannot have a sequence order: {wrong.detail}") from None
    needed = order_of(problem, rows, plan.stages)
    planned_orders = {order.loaded: order for order in plan.order}
    if len(planned_orders) != len(needed) or len(plan.order) != len(needed):
        raise PlanError(
            f"the plan orders {len(plan.order)} sequences, but its sharding requires {len(needed)}"
        )
    for expected in needed:
        planned = planned_orders.get(expected.loaded)
        if planned is None or not _agree(planned, expected):
            raise PlanError(
                f"the sequence order of the plan does not match its sharding: expected "
                f"{_names(expected)} in {expected.chunks} chunks of {expected.size} positions, "
                f"and by position {', '.join(expected.by_position[:3])}"
            )
        if planned.chunks % expected.chunks:
            raise PlanError(
                f"{_names(expected)} in {planned.chunks} chunks make the work of causal attention "
                f"uneven; use a multiple of {expected.chunks} chunks"
            )
    return rows


def order_checked(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> Sequences | None:
    """Sequences of a plan with several stages, checked by `check_order`."""
    if setup.sequence_order == "contiguous" and not plan.order:
        return None
    whole = whole_problem(graph, topology, setup, calibration, plan.microbatches)
    return check_order(plan, whole)


def _agree(planned: SequenceOrder, expected: SequenceOrder) -> bool:
    # older plans do not list rotated dims
    turned = planned.turned or expected.turned
    planned_fields, expected_fields = (
        (planned.size, planned.by_position, turned),
        (expected.size, expected.by_position, expected.turned),
    )
    return planned_fields == expected_fields


def _names(order: SequenceOrder) -> str:
    return ", ".join(
        f"dim {tensor_dim.dim} of {tensor_dim.tensor!r}" for tensor_dim in order.loaded[:3]
    )
