"""What the parts of ops are to a stated strategy: batch, sequence, tokens, experts, normalised.

Batch and sequence are followed from dims whose sizes have the symbols `batch` and `seq`
(`meshwright_solver.constraints.batch_dims`). Tokens are they, and all else that a product with a
parameter has and its parameter has not: positions, pixels. Experts are what weights of experts have
one of for each. Normalised is what a normalisation reduces and uses again, and every index that is
one with it (the width of a residual stream): Megatron-LM keeps it whole, so that weights which have
it are cut in their other dim, by columns behind it and by rows before it.
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
    """Of every op, by position, its parts of each role. leading: of its parts of the sequence the
    one that is cut for it, of queries and keys that of the queries."""

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
        if part.reused and _is_read_and_made(op, j)
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
    """Of the parameters that an op reads, all the parts that any of them has."""
    return frozenset(
        part
        for port in op.inputs
        if problem.tensors[port.tensor].tensor.role == "parameter"
        for part in port.slot_of
    )


def _is_read_and_made(op: OpInfo, part: int) -> bool:
    return part in op.inputs[0].slot_of and part in op.outputs[0].slot_of


def _leading(op: OpInfo, parts: Parts) -> Parts:
    """What the result and the first input have, of the outermost dim."""
    made = {part: slot for port in op.outputs[:1] for part, slot in port.slot_of.items()}
    first = {part for port in op.inputs[:1] for part in port.slot_of}
    for own in (parts & made.keys() & first, parts & made.keys(), parts):
        if own:
            return frozenset({min(own, key=lambda part: made.get(part, part))})
    return parts
