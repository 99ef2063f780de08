"""Views of whole tensors, and gradients of views in terms of their roots."""

from __future__ import annotations

import numpy as np

from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue, Values
from meshwright_solver.verification.execution.kernels import KERNELS
from meshwright_solver.verification.execution.reference_run import call_of
from meshwright_solver.verification.execution.shards import Array


class Views:
    """The reshapes and transposes of a problem, by the tensors that they make."""

    def __init__(self, problem: Problem, values: Values) -> None:
        self.problem = problem
        self.view_of: dict[str, OpInfo] = {
            problem.ops[position].outputs[0].tensor: problem.ops[position]
            for position in values.views
        }

    def of_root(self, value: ProblemValue, tensor: str, whole: Array) -> Array:
        """A whole root, seen as one of its views."""
        if tensor == value.root:
            return whole
        path = []
        name = tensor
        while name != value.root:
            op = self.view_of[name]
            path.append(op)
            name = op.inputs[0].tensor
        for op in reversed(path):
            whole = KERNELS[op.op.kind].forward(call_of(self.problem, op, [whole]))[0]
        return whole

    def to_root(self, value: ProblemValue, tensor: str, whole: Array) -> Array:
        """A whole view's gradient, as the gradient of its root."""
        while tensor != value.root:
            op = self.view_of[tensor]
            zeros = np.zeros(self.problem.tensors[op.inputs[0].tensor].shape)
            call = call_of(self.problem, op, [zeros])
            back = KERNELS[op.op.kind].backward(call, (whole,), (whole,))[0]
            assert back is not None
            whole, tensor = back, op.inputs[0].tensor
        return whole
