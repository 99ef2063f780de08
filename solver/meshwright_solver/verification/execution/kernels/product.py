"""Matrix products and table look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, reduced_to
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


def _transpose(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)


def _linear_weight(call: KernelCall) -> Array:
    """The weight as [n, k]."""
    weight = call.inputs[1]
    return np.asarray(weight.T if call.attrs.get("weight_layout") == "kn" else weight)


def _linear(call: KernelCall) -> Array:
    result: Array = call.x @ _linear_weight(call).T
    bias = call.optional(2)
    return result if bias is None else result + bias


def _linear_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    weight = _linear_weight(call)
    rows = sent[0].reshape(-1, weight.shape[0])
    weight_gradient = rows.T @ call.x.reshape(-1, weight.shape[1])
    if call.attrs.get("weight_layout") == "kn":
        weight_gradient = weight_gradient.T
    gradients = (sent[0] @ weight, weight_gradient, rows.sum(axis=0))
    return gradients[: len(call.inputs)]


def _matrices(call: KernelCall) -> tuple[Array, Array]:
    """Both factors with at least two dims: a vector is a row on the left, a column on the right."""
    a, b = call.inputs[:2]
    left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    if call.attrs.get("transpose_a") and a.ndim > 1:
        left = _transpose(left)
    if call.attrs.get("transpose_b") and b.ndim > 1:
        right = _transpose(right)
    return left, right


def _matmul(call: KernelCall) -> Array:
    left, right = _matrices(call)
    return np.asarray(left @ right).reshape(call.shape)


def _matmul_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    a, b = _matrices(call)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    gradient = sent[0].reshape(*lead, a.shape[-2], b.shape[-1])
    a_gradient = reduced_to(a.shape, gradient @ _transpose(b))
    b_gradient = reduced_to(b.shape, _transpose(a) @ gradient)
    if call.attrs.get("transpose_a"):
        a_gradient = _transpose(a_gradient)
    if call.attrs.get("transpose_b"):
        b_gradient = _transpose(b_gradient)
    return a_gradient.reshape(call.x.shape), b_gradient.reshape(call.inputs[1].shape)


def _expert_weight(call: KernelCall) -> Array:
    """The weight as [e, 1, k, n], to broadcast with [e, b, c, k]."""
    weight = call.inputs[1][:, None]
    return weight if call.attrs.get("weight_layout") == "ehf" else _transpose(weight)


def _expert_matmul(call: KernelCall) -> Array:
    return np.asarray(call.x @ _expert_weight(call))


def _expert_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    weight = (_transpose(call.x) @ sent[0]).sum(axis=1)
    if call.attrs.get("weight_layout") != "ehf":
        weight = _transpose(weight)
    return sent[0] @ _transpose(_expert_weight(call)), weight


def _rows(call: KernelCall) -> Array:
    """Row numbers, modulo the rows of the table or of the field's chunk."""
    ids = call.inputs[1].astype(np.int64)
    lengths = np.array(call.attrs.get("manual_split", [call.x.shape[0]]), dtype=np.int64)
    chunk = np.arange(len(lengths)).repeat(ids.shape[-1] // len(lengths)) if ids.ndim else 0
    starts = np.cumsum(lengths) - lengths
    return np.asarray(starts[chunk] + (ids - starts[chunk]) % lengths[chunk])


def _embedding(call: KernelCall) -> Array:
    return call.x[_rows(call)]


def _embedding_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    table = np.zeros(call.x.shape)
    np.add.at(table, _rows(call), sent[0])
    return (table, None)


PRODUCTS: Mapping[str, OpKernel] = {
    "linear": OpKernel(_linear, _linear_gradients),
    "matmul": OpKernel(_matmul, _matmul_gradients),
    "expert_matmul": OpKernel(_expert_matmul, _expert_gradients),
    "embedding": OpKernel(_embedding, _embedding_gradients),
}
