"""A stand-in for ops of unknown kinds: a smooth function with the dependences of their rule.

With b the factors that may be sharded, and w the whole dims of each tensor:

    sum[b] = sum over inputs and w of  weight[w] * sin(input[b, w])
    output[b, w] = weight[w] * (sum[b] + sum[b]^2 / 2)

Every element depends on every element of the same b, and on none of another. Outputs of other
dtypes are zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from meshwright.schema import Factor, Notation
from meshwright.schema.notation import Term
from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    is_float,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel


def why_not_executable(rule: Notation) -> str:
    """The reason for which the stand-in does not follow a rule; empty if it does."""
    if rule.reused or rule.halo or rule.follows or rule.may_follow:
        return "its rule has factors that communicate"
    if any(len(dim) > 1 for term in rule.terms for dim in term):
        return "its rule has segments"
    for term in rule.outputs:
        if not {*rule.factors} - rule.unsharded <= _factors(term):
            return "its rule has sharded factors that not all outputs have"
    return ""


def _factors(term: Term) -> set[Factor]:
    return {factor for dim in term for product in dim for factor in product}


class _View:
    """A tensor as an array of its factors: the sharded ones first, all others in one last dim."""

    def __init__(
        self,
        term: Term,
        shape: Sequence[int],
        sizes: Mapping[Factor, int],
        sharded: Sequence[Factor],
    ) -> None:
        self.shape = tuple(shape)
        self.lengths: list[int] = []
        front: dict[Factor, int] = {}
        for product in (dim[0] for dim in term):
            for factor in product:
                if factor in sharded:
                    front[factor] = len(self.lengths)
                self.lengths.append(sizes[factor])
        rest = [k for k in range(len(self.lengths)) if k not in front.values()]
        self.order = [*(front[f] for f in sharded if f in front), *rest]
        # sharded factors that the tensor lacks have length 1
        self.front = tuple(sizes[f] if f in front else 1 for f in sharded)
        count = math.prod(self.lengths[k] for k in rest)
        self.weights: Array = (0.5 + np.sin(1.0 + np.arange(count)) ** 2) / max(1, count)

    def split(self, array: Array) -> Array:
        parts = array.reshape(self.lengths).transpose(self.order)
        return parts.reshape(*self.front, -1)

    def merged(self, parts: Array) -> Array:
        lengths = [self.lengths[k] for k in self.order]
        back = [self.order.index(k) for k in range(len(self.order))]
        return parts.reshape(lengths).transpose(back).reshape(self.shape)


def _views(call: KernelCall) -> tuple[list[_View], list[_View]]:
    signature = call.signature
    assert signature is not None
    rule = signature.rule
    sharded = tuple(f for f in rule.factors if f not in rule.unsharded)
    count = len(call.inputs)
    terms = rule.terms_of(count + len(call.output_shapes))
    inputs = zip(terms[:count], (array.shape for array in call.inputs), strict=True)
    outputs = zip(terms[count:], call.output_shapes, strict=True)
    return (
        [_View(term, shape, signature.sizes, sharded) for term, shape in inputs],
        [_View(term, shape, signature.sizes, sharded) for term, shape in outputs],
    )


def _sum(call: KernelCall, views: Sequence[_View]) -> Array:
    total: Array = np.zeros(())
    for array, view in zip(call.inputs, views, strict=True):
        total = total + np.sin(view.split(array.astype(np.float64))) @ view.weights
    return total


def _values(call: KernelCall) -> list[Array]:
    inputs, outputs = _views(call)
    assert call.signature is not None
    total = _sum(call, inputs)
    made = []
    for view, dtype in zip(outputs, call.signature.dtypes, strict=True):
        if dtype != "float64":
            made.append(np.zeros(view.shape, dtype=dtype))
            continue
        whole = np.broadcast_to(total + total**2 / 2, view.front)
        made.append(view.merged(whole[..., None] * view.weights))
    return made


def _gradients(
    call: KernelCall, _outputs: Sequence[Array], gradients: Sequence[Array]
) -> list[Array | None]:
    inputs, outputs = _views(call)
    assert call.signature is not None
    total = _sum(call, inputs)
    of_sum: Array = np.zeros(())
    for view, dtype, gradient in zip(outputs, call.signature.dtypes, gradients, strict=True):
        if dtype == "float64":
            of_sum = of_sum + view.split(gradient) @ view.weights
    of_sum = of_sum * (1 + total)
    received: list[Array | None] = []
    for array, view in zip(call.inputs, inputs, strict=True):
        if not is_float(array):
            received.append(None)
            continue
        lacking = tuple(k for k, size in enumerate(view.front) if size == 1)
        own = of_sum.sum(axis=lacking, keepdims=True) if lacking else of_sum
        parts = np.cos(view.split(array)) * (own[..., None] * view.weights)
        received.append(view.merged(parts))
    return received


OPAQUE = OpKernel(_values, _gradients)
