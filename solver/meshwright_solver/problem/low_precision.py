"""Products in 8 bits: the ops that a precision recipe multiplies in float8, and what it costs.

A recipe applies to products of a 16-bit activation with a weight, or with the cast of one as under
autocast. These stay in 16 bits:

- products whose result a loss reads (the vocabulary head)
- products with a weight that has a dim of less than LEAST_DIM, or one that MULTIPLE does not divide
  (routers, narrow projections)
- attention, and all other ops

Both factors are quantized, in the backward pass the gradient of the result too
(`meshwright_solver.problem.precision_recipes`). Weights rest in 8 bits, as two copies, which take
as much memory as one of 16 bits; their quantization once a step is not counted. Scales are not
counted: at most 4 bytes for 32 elements.

    tensor              travels in                         is saved in
    activation          8 bits, if only such products      8 bits, if only such products need it in
                        read it                            the backward pass
    weight              8 bits                             -
    any gradient        16 bits                            -

Sources: Micikevicius et al., FP8 Formats for Deep Learning (arXiv:2209.05433); DeepSeek-V3
(arXiv:2412.19437), section 3.3, which keeps the embedding, the head, routers, norms and
attention in 16 bits, and saves and dispatches activations in 8 bits; Transformer Engine with its
8-bit primary weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from meshwright_solver.problem.weight_casts import is_weight_cast
from meshwright_solver.rules.losses import LOSSES
from meshwright_solver.rules.pointwise import POINTWISE

if TYPE_CHECKING:
    from meshwright_solver.problem.problem import Problem
    from meshwright_solver.problem.shardable_slots import Reader

LEAST_DIM = 512  # chosen: below, quantization takes as long as the product saves
MULTIPLE = 16  # published: the alignment that cuBLAS asks of 8-bit products


class LowPrecision(NamedTuple):
    """The products in 8 bits by position, and the values that travel or are saved in 8 bits."""

    products: frozenset[int]
    sent: frozenset[str]
    saved: frozenset[str]


NO_LOW_PRECISION = LowPrecision(frozenset(), frozenset(), frozenset())


def low_precision_products(problem: Problem, root_of: Mapping[str, str]) -> frozenset[int]:
    """Positions of the products in 8 bits. root_of: tensor -> the root that it is a view of."""
    if problem.setup.precision == "graph":
        return frozenset()
    heads = _read_by_losses(problem)
    return frozenset(
        position
        for position in range(len(problem.ops))
        if position not in heads and _is_large_product(problem, root_of, position)
    )


def in_eight_bits(products: frozenset[int], readers: Iterable[Reader]) -> bool:
    """Whether there are readers, all of which are products in 8 bits."""
    positions = [position for position, _ in readers]
    return bool(positions) and products.issuperset(positions)


def _is_large_product(problem: Problem, root_of: Mapping[str, str], position: int) -> bool:
    op = problem.ops[position]
    if op.known is None or op.known.op_class != "matmul" or len(op.inputs) < 2:
        return False
    factors = [problem.tensors[port.tensor] for port in op.inputs[:2]]
    if any(factor.tensor.dtype not in ("bfloat16", "float16") for factor in factors):
        return False
    weights = [f for f in factors if _is_weight(problem, root_of[f.name])]
    return len(weights) == 1 and all(
        size >= LEAST_DIM and size % MULTIPLE == 0 for size in _largest_two(weights[0].shape)
    )


def _largest_two(shape: Sequence[int]) -> list[int]:
    """The two largest sizes, without those of heads or experts; one size counts as 1."""
    return [1, *sorted(shape)][-2:]


def _is_weight(problem: Problem, root: str) -> bool:
    if problem.tensors[root].tensor.role == "parameter":
        return True
    producer = problem.producer_of.get(root)
    return producer is not None and is_weight_cast(problem, producer)


def _read_by_losses(problem: Problem) -> frozenset[int]:
    """Positions of ops from which only element-wise ops and views lead to a loss."""
    found: set[int] = set()
    open_ = [p for p, op in enumerate(problem.ops) if op.op.kind in LOSSES]
    while open_:
        for port in problem.ops[open_.pop()].inputs:
            maker = problem.producer_of.get(port.tensor)
            if maker is None or maker in found:
                continue
            found.add(maker)
            op = problem.ops[maker]
            if op.op.kind in POINTWISE or (op.known and op.known.op_class == "view"):
                open_.append(maker)
    return frozenset(found)
