"""The alternative strategies of ops, and the best plan with each of them.

All ops of a group have the same alternative, as if they were pinned to it. Because the time may
end, promising alternatives are searched first: those with the least compute and communication of
their own, and among equals those that differ from the plan on the fewest axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from meshwright.schema import Cost
from meshwright.schema.explanation import Alternative, PinPrice, Whole
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.deadline import OutOfTime
from meshwright_solver.constraints.pins import exactly
from meshwright_solver.evaluation.accounting.assignment import Codes
from meshwright_solver.evaluation.plan_document import op_of_codes
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.planning.explanation.fixed_mesh_problem import FixedMeshOutcome, Frame
from meshwright_solver.planning.explanation.reasons import dearer, ms, over
from meshwright_solver.strategies.op_collectives import own_moves_ns
from meshwright_solver.strategies.op_model import OpModel


@dataclass(frozen=True, slots=True)
class OpGroup:
    """Equal ops with one strategy.

    positions: in the folded problem. names: in the whole problem. codes: the strategy of the first.
    """

    positions: tuple[int, ...]
    names: tuple[str, ...]
    codes: Codes


def whole_of(cost: Cost) -> Whole:
    """A cost as the schema of explanations has it."""
    return Whole(
        step_ns=cost.step_ns,
        objective_ns=cost.objective_ns,
        compute_ns=cost.compute_ns,
        communication_ns=cost.communication_ns,
        exposed_ns=cost.exposed_ns,
        memory_bytes=cost.memory_bytes.total,
    )


def alternatives_of(frame: Frame, group: OpGroup, assigned: dict[str, Codes]) -> list[Alternative]:
    """All strategies of a group, searched until the time is over.

    assigned: the plan's strategies by name of op.
    """
    models = frame.models
    first = group.positions[0]
    model = models.ops.model(first)
    rows = model.choices
    costs = _OpCosts.of(frame, model, rows)
    keeps = frame.filters.all.get(first)
    allowed = keeps(model, rows) if keeps is not None else np.ones(len(rows), dtype=np.bool_)
    chosen = (rows == np.array(group.codes)).all(axis=1)
    alternatives: dict[int, Alternative] = {}
    for k in _search_order(rows, costs.total_ns, group.codes):
        written = op_of_codes(models, first, tuple(map(int, rows[k])), costs.times(k))
        alternative = Alternative(
            strategy=written.strategy,
            partial=written.partial,
            followers=written.followers,
            verdict="not solved",
            why="the time was over before it was searched",
            compute_ns=written.compute_ns,
            communication_ns=written.communication_ns,
            output_bytes=int(costs.output_bytes[k]),
        )
        if chosen[k]:
            update: dict[str, object] = {"verdict": "chosen", "why": "the plan has it", "others": 0}
            update["whole"] = whole_of(frame.cost)
        elif not allowed[k]:
            update = {"verdict": "not allowed", "why": _forbidden(frame, first)}
        else:
            update = _alternative_fields(frame, group, rows[k], assigned)
        alternatives[k] = alternative.like(**update)
    return sorted(alternatives.values(), key=_sort_key)


def pin_prices(frame: Frame, group: OpGroup) -> list[PinPrice]:
    """The cost of each pin of a group alone; pins after the deadline are left out."""
    pins = frame.spaces.pins
    prices: list[PinPrice] = []
    for pin in {str(pins[k]): pins[k] for k in group.positions if k in pins}.values():
        without = frozenset(k for k, other in pins.items() if other == pin)
        try:
            solved = frame.solve(frame.filters_without(without).all)
        except OutOfTime:
            break
        if solved.folded is None:
            prices.append(PinPrice(pin=str(pin), why=over(solved, frame)))
            continue
        whole = whole_of(solved.folded.cost)
        gained_ns = frame.cost.objective_ns - whole.objective_ns
        if gained_ns <= TOLERANCE * frame.cost.objective_ns:
            why = "costs nothing that a search can tell"
        else:
            why = f"costs {ms(gained_ns)} of the objective: {dearer(frame.cost, whole)}"
        prices.append(PinPrice(pin=str(pin), whole=whole, why=why))
    return prices


def _alternative_fields(
    frame: Frame, group: OpGroup, row: IntArray, assigned: dict[str, Codes]
) -> dict[str, object]:
    """Fields of an alternative from the best plan with its strategy; empty after the deadline."""
    fixed = dict.fromkeys(group.positions, exactly(row))
    try:
        solved = frame.solve({**frame.filters.all, **fixed})
    except OutOfTime:
        return {}
    least = solved.outcome.lower_bound_ns
    bound = {"least_ns": least} if isfinite(least) else {}
    if solved.folded is None or not solved.fits:
        whole = whole_of(solved.folded.cost) if solved.folded is not None else None
        return {"verdict": "does not fit", "why": over(solved, frame), "whole": whole, **bound}
    whole = whole_of(solved.folded.cost)
    verdict, why = _verdict(frame.cost, whole)
    others = _changed_count(solved, assigned) - len(group.names)
    return {"verdict": verdict, "why": why, "whole": whole, "others": others, **bound}


def _verdict(cost: Cost, whole: Whole) -> tuple[str, str]:
    extra_ns = whole.objective_ns - cost.objective_ns
    if extra_ns > 0:
        return "slower", dearer(whole, whole_of(cost))
    if whole.step_ns > cost.step_ns:
        longer = ms(whole.step_ns - cost.step_ns)
        return "simpler", f"its objective is {ms(-extra_ns)} less, its step {longer} longer"
    return "simpler", (
        f"its objective is {ms(-extra_ns)} less, within what a simpler plan may cost more"
    )


def _forbidden(frame: Frame, position: int) -> str:
    pin = frame.spaces.pins.get(position)
    return (
        f"the pin {pin} leaves it out"
        if pin is not None
        else ("a constraint of the request leaves it out")
    )


def _changed_count(solved: FixedMeshOutcome, assigned: dict[str, Codes]) -> int:
    """The number of ops with another strategy than in the plan, the fixed ops included."""
    folded = solved.folded
    assert folded is not None
    ops = folded.models.problem.ops
    changed = 0
    for portion in folded.portions:
        names = [(ops[k].name, portion.assignment.ops[k]) for k in portion.share.ops]
        for copy in portion.copies:
            called = copy.names
            changed += sum(assigned.get(called.get(n, n)) != codes for n, codes in names)
    return changed


@dataclass(frozen=True, slots=True)
class _OpCosts:
    """Costs of one op by strategy: times over a step, without redistributions, and output bytes."""

    compute_ns: Sequence[float]
    moves_ns: Sequence[float]
    total_ns: Sequence[float]
    output_bytes: Sequence[float]

    @staticmethod
    def of(frame: Frame, model: OpModel, rows: IntArray) -> _OpCosts:
        models = frame.models
        times = models.problem.microbatches
        compute = models.compute_ns(model, rows) * times
        moves = own_moves_ns(model, rows, models.interconnect) * times
        output_bytes = np.zeros(len(rows))
        for k, port in enumerate(model.outputs):
            if port.space is not None:
                output_bytes = output_bytes + port.space.local_bytes(model.made(rows, k))
        return _OpCosts(
            np.broadcast_to(compute, len(rows)).tolist(),
            np.broadcast_to(moves, len(rows)).tolist(),
            np.broadcast_to(models.op_cost_ns(model, rows), len(rows)).tolist(),
            output_bytes.tolist(),
        )

    def times(self, k: int) -> tuple[float, float]:
        return self.compute_ns[k], self.moves_ns[k]


def _search_order(rows: IntArray, total_ns: Sequence[float], codes: Codes) -> list[int]:
    away = (rows != np.array(codes)).sum(axis=1).tolist()
    # times within a tenth count as equal
    return sorted(
        range(len(rows)),
        key=lambda k: (round(10 * np.log(max(1.0, total_ns[k]))), away[k], tuple(rows[k])),
    )


def _sort_key(option: Alternative) -> tuple[int, float]:
    if option.verdict == "chosen":
        return 0, 0.0
    if option.verdict in ("slower", "simpler") and option.whole is not None:
        return 1, option.whole.objective_ns
    order = ("does not fit", "not solved", "not allowed")
    return 2 + order.index(option.verdict), option.compute_ns + option.communication_ns
