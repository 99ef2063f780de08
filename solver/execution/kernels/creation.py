"""Values from nothing: their shapes are those of the outputs, their dtypes those of their numbers.

Attrs may say the dtype; a reader that knows it better converts the result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solver.execution.kernels.call import Array, Call
from solver.execution.kernels.kernel import Kernel, no_gradient


def _as_said(call: Call, made: Array) -> Array:
    dtype = str(call.attrs.get("dtype") or "")
    if not dtype:
        return made
    kind = np.bool_ if dtype == "bool" else np.int64 if "int" in dtype else np.float64
    return made.astype(kind)


def _arange(call: Call) -> Array:
    start, step = call.number("start", 0), call.number("step", 1)
    return _as_said(call, start + step * np.arange(call.shape[0]))


def _full(call: Call) -> Array:
    return _as_said(call, np.full(call.shape, call.number("value", 0)))


def _one_hot(call: Call) -> Array:
    return np.asarray(call.x[..., None] == np.arange(call.shape[-1]), dtype=np.int64)


CREATION: Mapping[str, Kernel] = {
    "arange": Kernel(_arange, no_gradient),
    "full": Kernel(_full, no_gradient),
    "one_hot": Kernel(_one_hot, no_gradient),
}
