"""Roles of the parts of ops in a stated strategy: batch, sequence, tokens, experts, normalised.

- batch, sequence: propagated from dims whose sizes have the symbols `batch` and `seq`
  (`meshwright_solver.constraints.batch_dims`).
- tokens: batch and sequence, and every part of a product that its parameter lacks (positions,
  pixels).
- experts: the factor with one index for each expert's weights.
- normalised: the dim that a normalisation reduces and reuses, and every index identified with it
  (the width of a residual stream). Megatron-LM keeps it whole: weights that have it are cut in
  their other dim, by columns behind the normalisation and by rows before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshwright_solver.constraints.batch_dims import Parts, batch_parts, sequence_parts
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.uneven import index_classes
from meshwright_solver.rules.normalisation import NORMALISATIONS

PRODUCTS = frozenset({"matmul", "attention", "convolution"})  # op classes
_OVER_TOKENS = frozenset({"softmax", "log_softmax"})  # of scores and logits, no residual stream
_EXPERTS = "e"  # the factor of experts in the rules of the kinds below
_EXPERT_KINDS = frozenset({"expert_matmul", "moe_dispatch", "moe_combine", "grouped_matmul", "ffn"})


@dataclass(frozen=True, slots=True)
class Roles:
    """Parts of each role, for every op by position.

    leading: the sequence part that context parallelism cuts; in attention that of the queries.
    """

    batch: tuple[Parts, ...]
    leading: tuple[Parts, ...]
    tokens: tuple[Parts, ...]
    experts: tuple[Parts, ...]
    normalised: tuple[Parts, ...]


def roles_of(problem: Problem) -> Roles:
    classes = index_classes(problem.ops, problem.tensors)

    def everywhere(marked: set[tuple[int, int]]) -> tuple[Parts, ...]:
        same = {classes.find(key) for key in marked}
        return tuple(
            frozenset(j for j in range(len(op.parts)) if classes.find((position, j)) in same)
            for position, op in enumerate(problem.ops)
        )

    tokens = {
        (position, j)
        for position, op in enumerate(problem.ops)
        if op.known is not None and op.known.op_class in PRODUCTS
        if (weights := _parts_of_parameters(problem, op))
        for j in range(len(op.parts))
        if j not in weights
    }
    experts = {
        (position, j)
        for position, op in enumerate(problem.ops)
        if op.op.kind in _EXPERT_KINDS
        for j, part in enumerate(op.parts)
        if part.factor == _EXPERTS
    }
    normalised = {
        (position, j)
        for position, op in enumerate(problem.ops)
        if op.op.kind in NORMALISATIONS and op.op.kind not in _OVER_TOKENS
        for j, part in enumerate(op.parts)
        if part.reused and _is_input_and_output(op, j)
    }
    batch, sequence = batch_parts(problem), sequence_parts(problem)
    others = everywhere(tokens)
    return Roles(
        batch,
        tuple(map(_leading, problem.ops, sequence)),
        tuple(map(frozenset.union, batch, sequence, others)),
        everywhere(experts),
        everywhere(normalised),
    )


def _parts_of_parameters(problem: Problem, op: OpInfo) -> Parts:
    """The parts of all parameters that an op reads."""
    return frozenset(
        part
        for port in op.inputs
        if problem.tensors[port.tensor].tensor.role == "parameter"
        for part in port.slot_of
    )


def _is_input_and_output(op: OpInfo, part: int) -> bool:
    return part in op.inputs[0].slot_of and part in op.outputs[0].slot_of


def _leading(op: OpInfo, parts: Parts) -> Parts:
    """The outermost part that the output and the first input share, else one of the output."""
    output_slot = {part: slot for port in op.outputs[:1] for part, slot in port.slot_of.items()}
    first = {part for port in op.inputs[:1] for part in port.slot_of}
    for candidates in (parts & output_slot.keys() & first, parts & output_slot.keys(), parts):
        if candidates:
            return frozenset({min(candidates, key=lambda part: output_slot.get(part, part))})
    return parts
