"""Kinds that combine rows of equal number, find equal values, or draw numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, is_float
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient

Gradients = tuple[Array | None, ...]

_COMBINED = {"max": np.maximum, "min": np.minimum, "prod": np.multiply}


def _numbers(call: KernelCall) -> Array:
    return np.asarray(call.inputs[1].astype(np.int64) % call.shape[0])


def _sum(call: KernelCall) -> Array:
    sums = np.zeros(call.shape, dtype=call.x.dtype)
    np.add.at(sums, _numbers(call), call.x)
    return sums


def _sum_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    return sent[0][_numbers(call)], None


def _empty(call: KernelCall, how: str) -> Array:
    """The value of a segment without rows: the least number, the greatest, or one."""
    if how == "prod":
        return np.ones(call.shape, dtype=call.x.dtype)
    limits = np.finfo(np.float64) if is_float(call.x) else np.iinfo(np.int64)
    value = limits.min if how == "max" else limits.max
    return np.full(call.shape, value, dtype=call.x.dtype)


def _combine(call: KernelCall, *, how: str) -> Array:
    result = _empty(call, how)
    _COMBINED[how].at(result, _numbers(call), call.x)
    return result


def _extreme_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Equal shares to all rows that are the extreme of their segment."""
    numbers = _numbers(call)
    best = (call.x == outputs[0][numbers]).astype(np.float64)
    count = np.zeros(call.shape)
    np.add.at(count, numbers, best)
    return (sent[0] / np.maximum(count, 1))[numbers] * best, None


def _product_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """The product of the other rows of the segment, row by row; no division."""
    numbers = _numbers(call)
    lead = numbers.ndim
    rows = call.x.reshape(-1, *call.x.shape[lead:])
    flat = numbers.reshape(-1)
    gradients = np.empty_like(rows)
    for i, number in enumerate(flat):
        others = flat == number
        others[i] = False
        gradients[i] = sent[0][number] * rows[others].prod(axis=0)
    return gradients.reshape(call.x.shape), None


def _unique(call: KernelCall) -> tuple[Array, Array]:
    """Values in the order of their first appearance; the rest of the output is zero."""
    flat = call.x.reshape(-1)
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.argsort(order)
    values = np.zeros(call.shape, dtype=call.x.dtype)
    distinct = flat[np.sort(first)][: values.size]
    values[: distinct.size] = distinct
    return values, rank[inverse].reshape(call.x.shape).astype(np.int64)


def _candidates(call: KernelCall) -> list[Array]:
    """Consecutive classes, and the expected count of each in as many draws."""
    sampled = np.arange(call.shape[0], dtype=np.int64)
    classes = int(call.number("classes", 0)) or int(call.x.max()) + 1
    share = min(1.0, call.shape[0] / classes)
    return [sampled % classes, np.full(call.x.shape, share), np.full(sampled.shape, share)]


SEGMENTS: Mapping[str, OpKernel] = {
    "unsorted_segment_sum": OpKernel(_sum, _sum_gradients),
    "unsorted_segment_max": OpKernel(partial(_combine, how="max"), _extreme_gradients),
    "unsorted_segment_min": OpKernel(partial(_combine, how="min"), _extreme_gradients),
    "unsorted_segment_prod": OpKernel(partial(_combine, how="prod"), _product_gradients),
    "unique": OpKernel(_unique, no_gradient),
    "candidate_sampler": OpKernel(_candidates, no_gradient),
}
