"""Element-wise ops that take the layout of an input, without a redistribution before them."""

from __future__ import annotations

from collections.abc import Collection

from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
from meshwright_solver.rules.pointwise import POINTWISE


def followers(problem: Problem, values: Values, pinned: Collection[int]) -> dict[int, int]:
    """Index of the followed input, by position of element-wise op without a pin."""
    input_of = {}
    for position, op in enumerate(problem.ops):
        if position not in pinned and position not in values.views:
            port = _followed_input(op, values)
            if port is not None:
                input_of[position] = port
    return input_of


def _followed_input(op: OpInfo, values: Values) -> int | None:
    """The first input with all dims of the output that is neither a parameter nor free."""
    if op.op.rule is not None or op.op.kind not in POINTWISE or len(op.inputs) == 0:
        return None
    parts = set(op.outputs[0].slot_of)
    for k, port in enumerate(op.inputs):
        value = values.value_of[port.tensor]
        if not value.is_free and not value.is_parameter and parts <= set(port.slot_of):
            return k
    return None
