"""What the parts of ops are to a stated strategy: batch, sequence, experts, normalised.

Batch and sequence are followed from dims whose sizes have the symbols `batch` and `seq`
(`solver.data_parallel`). Experts are what weights of experts have one of for each. Normalised is
what a normalisation reduces and uses again, and every index that is one with it (the width of a
residual stream): Megatron-LM keeps it whole, so that weights which have it are cut in their other
dim, by columns behind it and by rows before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.data_parallel import Parts, batch_parts, sequence_parts
from solver.op_info import OpInfo
from solver.problem import Problem
from solver.rules.normalisation import NORMALISATIONS
from solver.uneven import index_classes

_OVER_TOKENS = frozenset({"softmax", "log_softmax"})  # of scores and logits, no residual stream
_EXPERTS = "e"  # the factor of experts in the rules of the kinds below
_EXPERT_KINDS = frozenset({"expert_matmul", "moe_dispatch", "moe_combine", "grouped_matmul", "ffn"})


@dataclass(frozen=True, slots=True)
class Roles:
    """Of every op, by position, its parts of each role. leading: of its parts of the sequence the
    one that is cut for it, of queries and keys that of the queries."""

    batch: tuple[Parts, ...]
    sequence: tuple[Parts, ...]
    leading: tuple[Parts, ...]
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
    sequence = sequence_parts(problem)
    return Roles(
        batch_parts(problem),
        sequence,
        tuple(map(_leading, problem.ops, sequence)),
        everywhere(experts),
        everywhere(normalised),
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
