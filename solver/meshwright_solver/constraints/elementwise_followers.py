"""Element-wise ops that follow an input: no redistribution is made for them alone."""

from __future__ import annotations

from collections.abc import Collection

from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
from meshwright_solver.rules.pointwise import POINTWISE


def followers(problem: Problem, values: Values, pinned: Collection[int]) -> dict[int, int]:
    """Position of element-wise ops without a pin -> the input that they follow."""
    found = {}
    for position, op in enumerate(problem.ops):
        if position not in pinned and position not in values.views:
            port = _followed_input(op, values)
            if port is not None:
                found[position] = port
    return found


def _followed_input(op: OpInfo, values: Values) -> int | None:
    """The first input, no parameter and not free, with all dims of the output."""
    if op.op.rule is not None or op.op.kind not in POINTWISE or len(op.inputs) == 0:
        return None
    parts = set(op.outputs[0].slot_of)
    for k, port in enumerate(op.inputs):
        value = values.value_of[port.tensor]
        if not value.is_free and not value.is_parameter and parts <= set(port.slot_of):
            return k
    return None
