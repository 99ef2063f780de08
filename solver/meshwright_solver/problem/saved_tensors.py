"""What ops need of the forward pass in their backward pass.

An op's rule says it, and `eager` stacks keep just that. `compiled` ones, recorded as `graphs` or
not, fuse what is element by element into its neighbours' kernels, and make its results again in
those of the gradients: a result is not kept where

    its op      is element-wise, or a norm, whose numbers of whole rows are kept
    its readers that want it for their gradients are element-wise, norms or losses too: in the
                gradient of a product it would have to be whole in memory
    its inputs  are kept in any case, or made so of what is

So does Megatron-LM's fused SwiGLU, and PyTorch's compiler by min_cut_rematerialization_partition
(He and Yu, "Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion Aware", MLSys
2023), which also weighs keeping other values than these. It takes no time: such a kernel waits for
memory, and has the inputs at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.rules.losses import LOSSES
from meshwright_solver.rules.normalisation import NORMALISATIONS
from meshwright_solver.rules.pointwise import POINTWISE

# random numbers are made once; a softmax keeps its result instead of its input
_MADE_ONCE = {"dropout", "fault_injection", "assign", "softmax", "log_softmax"}
_MAY_BE_INSIDE = {*POINTWISE, *NORMALISATIONS} - _MADE_ONCE
_MAY_HAVE_INSIDE = {*POINTWISE, *NORMALISATIONS, *LOSSES}


class Saved(NamedTuple):
    """Which inputs and outputs an op needs in its backward pass."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


_NOTHING = Saved((), ())


def saves_of(
    problem: Problem, views: Collection[int], root_of: Mapping[str, str]
) -> Sequence[Saved]:
    """Of every op, by position. root_of: of what a tensor is a view."""
    rules = _Rules(problem)
    saves = [
        _NOTHING if position in views else rules.of(op) for position, op in enumerate(problem.ops)
    ]
    if problem.setup.execution == "eager" or not problem.training:
        return saves
    return _Inside(problem, root_of, saves).left()


class _Rules:
    """What rules say, once for all of equal rule and gradients."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._key_of = IdentityKeys()
        self._known: dict[Hashable, Saved] = {}

    def of(self, op: OpInfo) -> Saved:
        tensors = self.problem.tensors
        gradients = [tensors[port.tensor].has_gradient for port in (*op.inputs, *op.outputs)]
        key = (self._key_of(op.known), len(op.inputs), *gradients)
        found = self._known.get(key)
        if found is None:
            count = len(op.inputs)
            found = self._known[key] = _saved(op, gradients[:count], gradients[count:])
        return found


def _saved(op: OpInfo, inputs: list[bool], outputs: list[bool]) -> Saved:
    """inputs, outputs: whether each has a gradient."""
    if not any(outputs):
        return _NOTHING
    if op.known is None:
        return Saved(tuple(range(len(inputs))), ())
    return Saved(
        tuple(k for k in range(len(inputs)) if _saves_input(op, k, inputs)),
        tuple(k for k in range(len(outputs)) if k in op.known.rule.saves_outputs),
    )


def _saves_input(op: OpInfo, k: int, has_gradient: list[bool]) -> bool:
    assert op.known is not None
    rule = op.known.rule
    if rule.saves_inputs is not None and k not in rule.saves_inputs:
        return False
    if not rule.linear:
        return True
    # a product needs one operand only for the gradient of another
    own = next((group for group in rule.linear if k in group), ())
    return any(
        has_gradient[other] for other in range(len(op.inputs)) if other != k and other not in own
    )


class _Inside:
    """Results that are made again inside the kernels of gradients.

    kept: values that gradients want. whole: those that one wants to be there as a whole. makeable:
    by op that may be inside, what it makes of values at hand. again: those that do so.
    """

    def __init__(
        self, problem: Problem, root_of: Mapping[str, str], saves: Sequence[Saved]
    ) -> None:
        self.problem = problem
        self.root_of = root_of
        self.saves = saves
        self.kept: set[str] = set()
        whole: set[str] = set()
        for op, own in zip(problem.ops, saves, strict=True):
            wanted = [root_of[op.inputs[k].tensor] for k in own.inputs]
            wanted += [root_of[op.outputs[k].tensor] for k in own.outputs]
            self.kept.update(wanted)
            if op.op.kind not in _MAY_HAVE_INSIDE:
                whole.update(wanted)
        self.makeable: dict[str, int] = {}
        for position, op in enumerate(problem.ops):
            if self._is_makeable(op):
                self.makeable[op.outputs[0].tensor] = position
        self.inside = (self.kept - whole).intersection(self.makeable)
        self.again = self._chains()

    def left(self) -> Sequence[Saved]:
        """What ops need that is not made again so."""
        if not self.inside:
            return self.saves
        return [self._left(position, own) for position, own in enumerate(self.saves)]

    def _is_makeable(self, op: OpInfo) -> bool:
        """Parameters are at hand, as they are gathered again for the backward pass in any case."""
        if op.op.kind not in _MAY_BE_INSIDE or len(op.outputs) != 1:
            return False
        tensors = self.problem.tensors
        if not tensors[op.outputs[0].tensor].has_gradient:
            return False
        return all(
            tensors[port.tensor].is_free
            or tensors[port.tensor].tensor.role == "parameter"
            or self.root_of[port.tensor] in self.kept
            or self.root_of[port.tensor] in self.makeable
            for port in op.inputs
        )

    def _chains(self) -> set[int]:
        """Ops that results inside go back to, as far as values that are kept."""
        found: set[int] = set()
        open_ = [self.makeable[root] for root in self.inside]
        while open_:
            position = open_.pop()
            if position in found:
                continue
            found.add(position)
            roots = [self.root_of[port.tensor] for port in self.problem.ops[position].inputs]
            open_ += [self.makeable[root] for root in roots if self._is_made_again(root)]
        return found

    def _is_made_again(self, root: str) -> bool:
        return root in self.makeable and (root in self.inside or root not in self.kept)

    def _left(self, position: int, own: Saved) -> Saved:
        """Ops that are made again read their inputs."""
        op = self.problem.ops[position]
        roots = [self.root_of[port.tensor] for port in op.inputs]
        read = range(len(roots)) if position in self.again else own.inputs
        inputs = [k for k in read if roots[k] in self.kept and roots[k] not in self.inside]
        outputs = [k for k in own.outputs if op.outputs[k].tensor not in self.inside]
        return Saved(tuple(inputs), tuple(outputs))
