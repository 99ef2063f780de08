"""The decisions of a choice on one axis, and the remainder for the axes inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.folding.fold import Item
from meshwright_solver.lowering.lower import Lowered
from meshwright_solver.stage.heuristics.local_models import Outer, OuterDivision
from meshwright_solver.strategies.op_model import OpModel
from meshwright_solver.strategies.parameter_model import ParameterModel


@dataclass(frozen=True, slots=True)
class AxisDecisions:
    """code_of: of ops, by position. rest_of: of values at rest, by root. state_of: of
    parameters."""

    lowered: Lowered
    code_of: dict[int, int]
    rest_of: dict[str, int]
    state_of: dict[str, int]

    @staticmethod
    def of(lowered: Lowered, choice: IntArray, alike: Sequence[tuple[Item, ...]]) -> AxisDecisions:
        """alike: ops and tensors of kept copies that stand for each other; all get the decision of
        the first (`Folding.alike`)."""
        state = choice.tolist()
        code_of = {
            position: int(lowered.op_choices[position][state[node], 0])
            for position, node in lowered.op_node.items()
        }
        rest_of = {
            root: int(lowered.rest_states[root][state[node], 0])
            for root, node in lowered.rest_node.items()
        }
        state_of = {root: state[node] for root, node in lowered.parameter_node.items()}
        by_name = lowered.models.problem.position_of
        for (kind, like), *others in alike:
            if kind == "op":
                first = by_name[like]
                if first in code_of:
                    code_of.update((by_name[name], code_of[first]) for _, name in others)
                continue
            for decisions in (rest_of, state_of):
                if like in decisions:
                    decisions.update(
                        (name, decisions[like]) for _, name in others if name in decisions
                    )
        return AxisDecisions(lowered, code_of, rest_of, state_of)

    def inside(self, outer: Outer, size: int) -> Outer:
        """The division for axes inside this one. size: of this axis. outer: its division."""
        models = self.lowered.models
        ops, value_of = models.ops, models.values.value_of
        inner = Outer()
        # most ops and values equal another: each kind is computed once
        ways, at_rest = cache(_ways), cache(_division_at_rest)
        read_codes: dict[tuple[int, int, int], int] = {}
        for position, code in self.code_of.items():
            model = ops.model(position)
            on = model.parts_of_code[code]
            inner.parts[position] = ways(model.parts, on, size, outer.parts.get(position))
        for root, code in self.rest_of.items():
            count = ops.space(root).slots
            inner.slots[root] = ways(count, (code,), size, outer.slots.get(root))
        for root, state in self.state_of.items():
            value = value_of[root]
            reader, port = value.readers[0]
            model, code = ops.model(reader), self.code_of[reader]
            key = (id(model), code, port)
            if key not in read_codes:
                read_codes[key] = _read_code(model, code, port)
            seen, division = read_codes[key], outer.divisions.get(root, OuterDivision())
            inner.divisions[root] = at_rest(models.parameter(value), state, seen, size, division)
            count = ops.space(root).slots
            inner.slots[root] = ways(count, (seen,), size, outer.slots.get(root))
        return inner


def _ways(
    count: int, on: tuple[int, ...], size: int, before: tuple[int, ...] | None
) -> tuple[int, ...]:
    """The cut of each part or slot, after one more axis that shards those in `on`."""
    ways = before or (1,) * count
    return tuple([way * size if k in on else way for k, way in enumerate(ways)])


def _read_code(model: OpModel, code: int, port: int) -> int:
    """The code in which an op reads an input."""
    return int(model.required(np.array([[code]], dtype=np.int64), port)[0, 0])


def _division_at_rest(
    model: ParameterModel, state: int, seen: int, size: int, division: OuterDivision
) -> OuterDivision:
    """The division of a parameter at rest after one more axis. seen: the code of its reader."""
    n = model.space.slots
    row = model.states[state][None, :]

    def finer(layout: IntArray) -> int:
        return size if layout[0, 0] < n and seen >= n else 1

    dealt = size if model.dealt_axes(row)[0, 0] else 1
    return OuterDivision(
        division.value * finer(model.value(row)),
        division.gradient
        * finer(model.gradient(row))
        * (dealt if model.deals_gradient(row)[0] else 1),
        division.optimizer * finer(model.optimizer(row)) * dealt,
    )
