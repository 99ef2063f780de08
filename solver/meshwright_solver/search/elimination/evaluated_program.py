"""An evaluated elimination program: for weights (w_cost, w_memory)

    value = min over choices of w_cost * cost(choice) + w_memory * memory(choice)

and a choice that attains it. A forbidden choice counts inf under any weights.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.interned_tables import CostWeights, weighted
from meshwright_solver.search.elimination.elimination_order import EliminationProgram
from meshwright_solver.search.elimination.eliminator import EliminationStep
from meshwright_solver.search.elimination.min_sum import Grouping, Operand, minimum
from meshwright_solver.search.elimination.tables import (
    Decided,
    Definition,
    GraphArray,
    Minimum,
    Select,
    Sliced,
    Substituted,
)


@dataclass(frozen=True, slots=True)
class Solution:
    """All tables of a program under some weights."""

    program: EliminationProgram
    weights: CostWeights
    tables: list[FloatArray]
    value: float

    def choice(self) -> IntArray:
        """A best choice, where value is finite; the first state wins where states tie."""
        states: dict[int, int] = {}
        chosen: dict[tuple[int, tuple[int, ...]], int] = {}
        self._decide(self.program.steps, states, chosen)
        choice = np.empty(len(self.program.graph.nodes), dtype=np.int64)
        choice[list(states)] = list(states.values())
        for block in self.program.blocks:
            alike: dict[tuple[int, ...], list[int]] = {}
            for repeat in block.repeats:
                around = tuple([states[node] for node in repeat.outside])
                alike.setdefault(around, []).append(repeat.shift)
            interior = np.array(block.interior, dtype=np.int64)
            for around, shifts in alike.items():
                inside = dict(zip(block.outside, around, strict=True))
                self._decide(block.steps, inside, chosen)
                row = [inside[node] for node in block.interior]
                choice[interior + np.array(shifts)[:, None]] = row
        return choice

    def _decide(
        self,
        steps: Sequence[EliminationStep],
        states: MutableMapping[int, int],
        chosen: dict[tuple[int, tuple[int, ...]], int],
    ) -> None:
        """Derive the states of the nodes of `steps` from those of their neighbours."""
        registry = self.program.registry
        for step in reversed(steps):
            if step.decided_by is not None:
                states[step.node] = registry.states(step.decided_by).item(
                    states[step.neighbours[0]]
                )
            elif step.result is None:
                states[step.node] = 0
            else:
                around = tuple([states[other] for other in step.neighbours])
                key = (step.result, around)
                state = chosen.get(key)
                if state is None:
                    state = chosen[key] = int(self._joint(step, around).argmin())
                states[step.node] = state

    def regrets(self, step: EliminationStep, around: tuple[int, ...]) -> FloatArray:
        """The increase of the least value under `around` by each state of a minimised node."""
        joint = self._joint(step, around)
        return np.asarray(np.maximum(joint - joint.min(), 0.0))

    def _joint(self, step: EliminationStep, around: tuple[int, ...]) -> FloatArray:
        """The sum of the step's terms over its node's states, its neighbours' being `around`."""
        index: tuple[int | slice, ...] = (slice(None), *around)
        total: FloatArray | None = None
        for term in step.terms:
            part = self.tables[term.table][tuple([index[axis] for axis in term.axes])]
            total = part if total is None else total + part
        assert total is not None
        for grouping in step.groupings:
            states = self.program.registry.states(grouping.table)
            total = np.where(states == around[grouping.axes[1] - 1], total, np.inf)
        return total


def solve(
    program: EliminationProgram,
    weights: CostWeights,
    deadline: Deadline,
    known: Solution | None = None,
) -> Solution:
    """Evaluate all tables. Those without memory come from `known` if its weight of cost is equal.

    Raises OutOfTime.
    """
    registry = program.registry
    tables: list[FloatArray] = []
    reuse = known is not None and known.weights.cost == weights.cost
    for number, definition in enumerate(registry.definitions):
        if known is not None and reuse and not registry.has_memory[number]:
            tables.append(known.tables[number])
            continue
        deadline.check()
        tables.append(_compute(number, definition, weights, tables, program))
    value = math.fsum(float(tables[number]) for number in program.constants)
    return Solution(program, weights, tables, value)


def _compute(
    number: int,
    definition: Definition,
    weights: CostWeights,
    tables: list[FloatArray],
    program: EliminationProgram,
) -> FloatArray:
    match definition:
        case GraphArray(cost, memory):
            return weighted(cost, memory, weights)
        case Minimum(terms, groupings, extents):
            recipe = program.registry.recipe(number, definition)
            if recipe is not None:
                return recipe.minimum([tables[term.table] for term in terms])
            states = program.registry.states
            return minimum(
                [Operand(tables[term.table], term.axes) for term in terms],
                [Grouping(states(g.table), g.axes[1]) for g in groupings],
                extents,
            )
        case Substituted(source, projection, axis, merged_axis):
            states_of = program.registry.states(projection)
            return _substituted(tables[source], states_of, axis, merged_axis)
        case Sliced(source, axis):
            return np.asarray(tables[source].take(0, axis))
        case Decided(projection):
            shape = program.registry.shapes[projection]
            heads = np.arange(shape[1])
            decided = program.registry.states(projection)[:, None] == heads
            return np.where(decided, 0.0, np.inf)
        case Select():
            return _NOTHING


_NOTHING: FloatArray = np.empty(0)


def _substituted(
    table: FloatArray, states: IntArray, axis: int, merged_axis: int | None
) -> FloatArray:
    if merged_axis is None:
        return table.take(states, axis)
    paired = np.moveaxis(table, (axis, merged_axis), (0, 1))[states, np.arange(len(states))]
    place = axis if merged_axis > axis else axis - 1
    return np.moveaxis(paired, 0, place)
