"""Factorizations, solvers, distances and products along chosen dims.

Values are random. A matrix A without a Cholesky factor is replaced by A A^T + 1, and a zero on the
diagonal of a triangle counts as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    reduced_to,
    scaled,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


def _t(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _has_factor(matrix: Array) -> bool:
    lower = np.tril(matrix)
    try:
        np.linalg.cholesky(lower + np.tril(matrix, -1).T)
    except np.linalg.LinAlgError:
        return False
    return True


def _factors(call: KernelCall) -> tuple[Array, Array]:
    """Lower factors, and a mask of the matrices that have one."""
    flat = call.x.reshape(-1, *call.x.shape[-2:])
    good = np.array([_has_factor(matrix) for matrix in flat], dtype=np.bool_)
    lower = np.zeros_like(flat)
    for i, matrix in enumerate(flat):
        whole = np.tril(matrix) + np.tril(matrix, -1).T
        lower[i] = np.linalg.cholesky(whole if good[i] else matrix @ matrix.T + np.eye(len(matrix)))
    return lower.reshape(call.x.shape), good.reshape(call.x.shape[:-2])


def _cholesky(call: KernelCall) -> Array:
    lower = _factors(call)[0]
    return _t(lower) if call.attrs.get("upper", False) else lower


def _cholesky_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """paper: Murray 2016, Differentiation of the Cholesky decomposition, equation 9."""
    lower, good = _factors(call)
    g = _t(sent[0]) if call.attrs.get("upper", False) else sent[0]
    inner = np.tril(_t(lower) @ g)
    inner = inner - 0.5 * inner * np.eye(lower.shape[-1])
    inverse = np.linalg.inv(lower)
    s = _t(inverse) @ inner @ inverse
    whole = 0.5 * (s + _t(s))
    other = (whole + _t(whole)) @ call.x
    return (np.where(good[..., None, None], whole, other),)


def _triangle(call: KernelCall) -> Array:
    """The triangular matrix of a solve."""
    a = call.x
    a = np.tril(a) if call.attrs.get("lower", False) else np.triu(a)
    eye = np.eye(a.shape[-1])
    diagonal = a * eye
    if call.attrs.get("unitriangular", False):
        a = a - diagonal + eye
    a = a + eye * (a * eye == 0)
    return _t(a) if call.attrs.get("transposed", False) else a


def _solve(call: KernelCall) -> Array:
    return np.linalg.solve(_triangle(call), call.inputs[1])


def _solve_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    right = np.linalg.solve(_t(_triangle(call)), sent[0])
    whole = -right @ _t(outputs[0])
    whole = _t(whole) if call.attrs.get("transposed", False) else whole
    whole = np.tril(whole) if call.attrs.get("lower", False) else np.triu(whole)
    if call.attrs.get("unitriangular", False):
        whole = whole * (1 - np.eye(whole.shape[-1]))
    return reduced_to(call.x.shape, whole), reduced_to(call.inputs[1].shape, right)


def _least_squares(call: KernelCall) -> list[Array]:
    """The solution; then squared residuals, ranks and singular values."""
    a, b = call.inputs[:2]
    x = np.linalg.pinv(a) @ b
    residuals = ((a @ x - b) ** 2).sum(axis=-2)
    singular = np.linalg.svd(a, compute_uv=False)
    ranks = np.linalg.matrix_rank(a).astype(np.int64)
    more = [residuals, ranks, singular]
    shapes = call.output_shapes[1:]
    return [
        x,
        *(np.asarray(array).reshape(shape) for array, shape in zip(more, shapes, strict=False)),
    ]


def _least_squares_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Gradients for a matrix of full rank with at least as many rows as columns."""
    a, b = call.inputs[:2]
    inverse = np.linalg.pinv(a)
    g, x = sent[0], outputs[0]
    rest = (b - a @ x) @ _t(inverse @ _t(inverse) @ g)
    return np.asarray(rest - _t(inverse) @ g @ _t(x)), np.asarray(_t(inverse) @ g)


def _distances(call: KernelCall) -> Array:
    p = call.number("p", 2.0)
    apart = np.abs(call.x[..., :, None, :] - call.inputs[1][..., None, :, :])
    if p == 0:
        return np.asarray((apart != 0).sum(axis=-1), dtype=np.float64)
    if p == np.inf:
        return np.asarray(apart.max(axis=-1))
    return np.asarray((apart**p).sum(axis=-1) ** (1 / p))


def _distance_gradients(
    call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    p = call.number("p", 2.0)
    apart = call.x[..., :, None, :] - call.inputs[1][..., None, :, :]
    y, g = outputs[0][..., None], sent[0][..., None]
    if p == 0:
        slope = np.zeros_like(apart)
    elif p == np.inf:
        best = np.abs(apart) == y
        slope = np.sign(apart) * best / best.sum(axis=-1, keepdims=True)
    else:
        inner = np.where(y == 0, 1.0, y)
        slope = np.where(y == 0, 0.0, np.sign(apart) * (np.abs(apart) / inner) ** (p - 1))
    whole = scaled(g, slope)
    return (
        reduced_to(call.x.shape, whole.sum(axis=-2)),
        reduced_to(call.inputs[1].shape, -whole.sum(axis=-3)),
    )


def _outer(call: KernelCall) -> Array:
    return np.outer(call.x, call.inputs[1])


def _outer_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return sent[0] @ call.inputs[1], call.x @ sent[0]


def _axes(call: KernelCall) -> list[list[int]]:
    sides = zip(call.attrs["dims"], call.inputs, strict=True)
    return [[int(d) % array.ndim for d in side] for side, array in sides]


def _tensordot(call: KernelCall) -> Array:
    first, second = _axes(call)
    return np.asarray(np.tensordot(call.x, call.inputs[1], axes=(first, second)))


def _tensordot_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Each gradient is a product with the other input, over the free dims of that input."""
    a, b = call.inputs
    gone_a, gone_b = _axes(call)
    free_a = [d for d in range(a.ndim) if d not in gone_a]
    free_b = [d for d in range(b.ndim) if d not in gone_b]
    lead = len(free_a)
    left_gradient = np.tensordot(sent[0], b, axes=(list(range(lead, sent[0].ndim)), free_b))
    right_gradient = np.tensordot(a, sent[0], axes=(free_a, list(range(lead))))
    # the summed dims come in the order of the other input's dims
    order_b = np.argsort(gone_b)
    order_a = np.argsort(gone_a)
    back_a = [*free_a, *(gone_a[i] for i in order_b)]
    back_b = [*(gone_b[i] for i in order_a), *free_b]
    return left_gradient.transpose(np.argsort(back_a)), right_gradient.transpose(np.argsort(back_b))


LINEAR_ALGEBRA: Mapping[str, OpKernel] = {
    "cholesky": OpKernel(_cholesky, _cholesky_gradients),
    "solve_triangular": OpKernel(_solve, _solve_gradients),
    "least_squares": OpKernel(_least_squares, _least_squares_gradients),
    "cdist": OpKernel(_distances, _distance_gradients),
    "outer": OpKernel(_outer, _outer_gradients),
    "tensordot": OpKernel(_tensordot, _tensordot_gradients),
}
