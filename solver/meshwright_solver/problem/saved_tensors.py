"""Saved tensors: the forward inputs and outputs that ops need in their backward pass.

An `eager` stack saves the tensors that the op's rule names. A compiled stack (with `graphs` or not)
fuses element-wise ops into neighboring kernels and recomputes their results inside the kernels of
gradients. Such a result is not saved if all of these hold:

    its op                is element-wise, or a norm; the row statistics of a norm are saved
    its gradient readers  are element-wise, norms or losses; the gradient of a product would need
                          the whole result in memory
    its inputs            are saved anyway, or recomputed in the same way

Megatron-LM's fused SwiGLU does this, and PyTorch's compiler does it with
min_cut_rematerialization_partition (He and Yu, "Transcending Runtime-Memory Tradeoffs in
Checkpointing by being Fusion Aware", MLSys 2023), which may also save other values. The
recomputation takes no time: these kernels are memory-bound and read the inputs anyway.
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

# random numbers must not change; a softmax saves its result instead of its input
_NEVER_RECOMPUTED = {"dropout", "fault_injection", "assign", "softmax", "log_softmax"}
_RECOMPUTE_KINDS = {*POINTWISE, *NORMALISATIONS} - _NEVER_RECOMPUTED
_FUSED_READER_KINDS = {*POINTWISE, *NORMALISATIONS, *LOSSES}


class Saved(NamedTuple):
    """Indices of the inputs and outputs that an op needs in its backward pass."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


_NOTHING = Saved((), ())


def saves_of(
    problem: Problem, views: Collection[int], root_of: Mapping[str, str]
) -> Sequence[Saved]:
    """Saved tensors of every op, by position. root_of: tensor -> the root that it is a view of."""
    rules = _Rules(problem)
    saves = [
        _NOTHING if position in views else rules.of(op) for position, op in enumerate(problem.ops)
    ]
    if problem.setup.execution == "eager" or not problem.training:
        return saves
    return _FusedRecompute(problem, root_of, saves).remaining_saves()


class _Rules:
    """Saved tensors by rule, cached for ops of equal rule and gradients."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._key_of = IdentityKeys()
        self._known: dict[Hashable, Saved] = {}

    def of(self, op: OpInfo) -> Saved:
        tensors = self.problem.tensors
        gradients = [tensors[port.tensor].has_gradient for port in (*op.inputs, *op.outputs)]
        key = (self._key_of(op.known), len(op.inputs), *gradients)
        saves = self._known.get(key)
        if saves is None:
            count = len(op.inputs)
            saves = self._known[key] = _rule_saves(op, gradients[:count], gradients[count:])
        return saves


def _rule_saves(op: OpInfo, inputs: list[bool], outputs: list[bool]) -> Saved:
    """Saved tensors of an op by its rule. inputs, outputs: whether each has a gradient."""
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
    # the gradient of one operand of a product needs the other operands
    operands = next((group for group in rule.linear if k in group), ())
    return any(
        has_gradient[other]
        for other in range(len(op.inputs))
        if other != k and other not in operands
    )


class _FusedRecompute:
    """Results that fused kernels of gradients recompute.

    saved_roots: values that gradients need. recomputable: value -> the op that could recompute it
    from values at hand. recomputed_roots: values that are not saved. recomputed_ops: the ops that
    run inside kernels of gradients.
    """

    def __init__(
        self, problem: Problem, root_of: Mapping[str, str], saves: Sequence[Saved]
    ) -> None:
        self.problem = problem
        self.root_of = root_of
        self.saves = saves
        self.saved_roots: set[str] = set()
        whole: set[str] = set()
        for op, op_saves in zip(problem.ops, saves, strict=True):
            wanted = [root_of[op.inputs[k].tensor] for k in op_saves.inputs]
            wanted += [root_of[op.outputs[k].tensor] for k in op_saves.outputs]
            self.saved_roots.update(wanted)
            if op.op.kind not in _FUSED_READER_KINDS:
                whole.update(wanted)
        self.recomputable: dict[str, int] = {}
        for position, op in enumerate(problem.ops):
            if self._is_recomputable(op):
                self.recomputable[op.outputs[0].tensor] = position
        self.recomputed_roots = (self.saved_roots - whole).intersection(self.recomputable)
        self.recomputed_ops = self._chains()

    def remaining_saves(self) -> Sequence[Saved]:
        """Saved tensors of every op, without the results that kernels recompute."""
        if not self.recomputed_roots:
            return self.saves
        return [
            self._op_remaining_saves(position, op_saves)
            for position, op_saves in enumerate(self.saves)
        ]

    def _is_recomputable(self, op: OpInfo) -> bool:
        """Whether an op can run inside kernels of gradients. Parameters are at hand, since the
        backward pass gathers them again anyway."""
        if op.op.kind not in _RECOMPUTE_KINDS or len(op.outputs) != 1:
            return False
        tensors = self.problem.tensors
        if not tensors[op.outputs[0].tensor].has_gradient:
            return False
        return all(
            tensors[port.tensor].is_free
            or tensors[port.tensor].tensor.role == "parameter"
            or self.root_of[port.tensor] in self.saved_roots
            or self.root_of[port.tensor] in self.recomputable
            for port in op.inputs
        )

    def _chains(self) -> set[int]:
        """Ops between the recomputed results and saved values."""
        positions: set[int] = set()
        open_ = [self.recomputable[root] for root in self.recomputed_roots]
        while open_:
            position = open_.pop()
            if position in positions:
                continue
            positions.add(position)
            roots = [self.root_of[port.tensor] for port in self.problem.ops[position].inputs]
            open_ += [self.recomputable[root] for root in roots if self._is_recomputed(root)]
        return positions

    def _is_recomputed(self, root: str) -> bool:
        return root in self.recomputable and (
            root in self.recomputed_roots or root not in self.saved_roots
        )

    def _op_remaining_saves(self, position: int, op_saves: Saved) -> Saved:
        """Saved tensors of one op; a recomputed op needs all its inputs."""
        op = self.problem.ops[position]
        roots = [self.root_of[port.tensor] for port in op.inputs]
        read = range(len(roots)) if position in self.recomputed_ops else op_saves.inputs
        inputs = [
            k
            for k in read
            if roots[k] in self.saved_roots and roots[k] not in self.recomputed_roots
        ]
        outputs = [k for k in op_saves.outputs if op.outputs[k].tensor not in self.recomputed_roots]
        return Saved(tuple(inputs), tuple(outputs))
