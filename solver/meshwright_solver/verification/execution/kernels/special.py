"""Element-wise kinds that are not in numpy, or are defined only on a part of the numbers.

A function is continued where it is not defined, like the logarithm. A domain of [-1, 1] takes the
inverse 1 / x of larger numbers; a positive domain takes the magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy import special

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel
from meshwright_solver.verification.execution.kernels.unary import element_wise, flat

# published: Klambauer et al. 2017, Self-Normalizing Neural Networks, equation 14
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
_ROOT_PI = float(np.sqrt(np.pi))

Function = Callable[[Array], Array]


def _inside(x: Array) -> Array:
    return np.where(np.abs(x) > 1, 1 / x, x)


def _of_inside(function: Function, slope: Function) -> OpKernel:
    """A function on [-1, 1]."""
    return element_wise(
        lambda x, _: function(_inside(x)),
        lambda x, *_: slope(_inside(x)) * np.where(np.abs(x) > 1, -1 / x**2, 1.0),
    )


def _plain(function: Function, slope: Function) -> OpKernel:
    return element_wise(lambda x, _: function(x), lambda x, *_: slope(x))


def _over_x(function: Function, x: Array) -> Array:
    """function(x) / x, and 1/2 at 0: the limit of a Bessel function of order 1."""
    return np.where(x == 0, 0.5, function(x) / np.where(x == 0, 1.0, x))


def _beyond_one(x: Array) -> Array:
    return np.asarray(1 + np.abs(x - 1))


def _soft_shrink(x: Array, call: KernelCall) -> Array:
    bound = call.number("lambd", 0.5)
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - bound, 0))


def _beyond_bound(x: Array, _y: Array, call: KernelCall) -> Array:
    return (np.abs(x) > call.number("lambd", 0.5)).astype(np.float64)


def _nan_to_num(x: Array, call: KernelCall) -> Array:
    limit = float(np.finfo(np.float64).max)
    return np.nan_to_num(
        x,
        nan=float(call.number("nan", 0.0)),
        posinf=float(call.number("posinf", limit)),
        neginf=float(call.number("neginf", -limit)),
    )


def _population_count(x: Array) -> Array:
    return np.bitwise_count(x.astype(np.int64).view(np.uint64)).astype(np.int64)


SPECIAL: Mapping[str, OpKernel] = {
    "acos": _of_inside(np.arccos, lambda x: -1 / np.sqrt(1 - x**2)),
    "asin": _of_inside(np.arcsin, lambda x: 1 / np.sqrt(1 - x**2)),
    "atan": _plain(np.arctan, lambda x: 1 / (1 + x**2)),
    "acosh": element_wise(
        lambda x, _: np.arccosh(_beyond_one(x)),
        lambda x, *_: np.sign(x - 1) / np.sqrt(_beyond_one(x) ** 2 - 1),
    ),
    "asinh": _plain(np.arcsinh, lambda x: 1 / np.sqrt(1 + x**2)),
    "atanh": _of_inside(np.arctanh, lambda x: 1 / (1 - x**2)),
    "cosh": _plain(np.cosh, np.sinh),
    "sinh": _plain(np.sinh, np.cosh),
    "erfc": _plain(special.erfc, lambda x: -2 / _ROOT_PI * np.exp(-(x**2))),
    "erfinv": _of_inside(
        special.erfinv, lambda x: _ROOT_PI / 2 * np.exp(np.asarray(special.erfinv(x)) ** 2)
    ),
    "lgamma": _plain(special.gammaln, special.digamma),
    "bessel_i0": _plain(special.i0, special.i1),
    "bessel_i0e": _plain(special.i0e, lambda x: special.i1e(x) - np.sign(x) * special.i0e(x)),
    "bessel_i1": _plain(special.i1, lambda x: special.i0(x) - _over_x(special.i1, x)),
    "bessel_i1e": _plain(
        special.i1e,
        lambda x: special.i0e(x) - np.sign(x) * special.i1e(x) - _over_x(special.i1e, x),
    ),
    "bessel_j0": _plain(special.j0, lambda x: -special.j1(x)),
    "bessel_j1": _plain(special.j1, lambda x: special.j0(x) - _over_x(special.j1, x)),
    "relu6": _plain(lambda x: np.clip(x, 0, 6), lambda x: ((x > 0) & (x < 6)) * 1.0),
    "selu": _plain(
        lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(x)),
        lambda x: _SELU_SCALE * np.where(x > 0, 1.0, _SELU_ALPHA * np.exp(x)),
    ),
    "softsign": _plain(lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2),
    "softshrink": element_wise(_soft_shrink, _beyond_bound),
    "hardshrink": element_wise(
        lambda x, call: np.where(np.abs(x) > call.number("lambd", 0.5), x, 0.0), _beyond_bound
    ),
    "nan_to_num": element_wise(_nan_to_num, lambda x, *_: np.isfinite(x) * 1.0),
    "trunc": flat(np.trunc),
    "isfinite": flat(np.isfinite),
    "population_count": flat(_population_count),
}
