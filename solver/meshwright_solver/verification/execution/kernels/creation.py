"""Values without inputs: the shapes are those of the outputs, the dtypes those of the numbers.

Attrs may name the dtype; a reader with a more exact dtype converts the result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import special

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient


def _as_dtype(call: KernelCall, array: Array) -> Array:
    dtype = str(call.attrs.get("dtype") or "")
    if not dtype:
        return array
    kind = np.bool_ if dtype == "bool" else np.int64 if "int" in dtype else np.float64
    return array.astype(kind)


def _arange(call: KernelCall) -> Array:
    start, step = call.number("start", 0), call.number("step", 1)
    return _as_dtype(call, start + step * np.arange(call.shape[0]))


def _full(call: KernelCall) -> Array:
    return _as_dtype(call, np.full(call.shape, call.number("value", 0)))


def _one_hot(call: KernelCall) -> Array:
    """Classes at the dim; further inputs are the on and off values."""
    dim = call.dim(-1, rank=len(call.shape))
    classes = np.arange(call.shape[dim]).reshape(
        [-1 if d == dim else 1 for d in range(len(call.shape))]
    )
    chosen = np.expand_dims(call.x, dim) == classes
    yes, no = call.optional(1), call.optional(2)
    if yes is None or no is None:
        return np.asarray(chosen, dtype=np.int64)
    return np.where(chosen, yes, no)


def _linspace(call: KernelCall) -> Array:
    ends = [float(array.reshape(-1)[0]) for array in call.inputs[:2]]
    start, end = ends if len(ends) == 2 else (call.number("start", 0.0), call.number("end", 1.0))
    return np.linspace(start, end, call.shape[0])


def _uniform(call: KernelCall) -> Array:
    """Numbers between 0 and 1 that depend on the place alone, so that all devices agree on them."""
    return np.random.default_rng(int(call.number("seed", 0))).random(call.shape)


def _random_uniform(call: KernelCall) -> Array:
    low, high = call.number("low", 0.0), call.number("high", 1.0)
    return np.asarray(low + (high - low) * _uniform(call))


def _random_normal(call: KernelCall) -> Array:
    return np.asarray(special.ndtri(_uniform(call)))


def _random_gamma(call: KernelCall) -> Array:
    """Samples with shapes alpha and rates beta, whose dims are the last ones."""
    alpha, beta = (np.abs(array) for array in call.inputs[:2])
    return np.asarray(special.gammaincinv(alpha, _uniform(call)) / beta)


def _get_next(call: KernelCall) -> list[Array]:
    return [np.random.default_rng(i).random(shape) for i, shape in enumerate(call.output_shapes)]


CREATION: Mapping[str, OpKernel] = {
    "arange": OpKernel(_arange, no_gradient),
    "full": OpKernel(_full, no_gradient),
    "one_hot": OpKernel(_one_hot, no_gradient),
    "linspace": OpKernel(_linspace, no_gradient),
    "random_uniform": OpKernel(_random_uniform, no_gradient),
    "random_normal": OpKernel(_random_normal, no_gradient),
    "random_gamma": OpKernel(_random_gamma, no_gradient),
    "get_next": OpKernel(_get_next, no_gradient),
}
