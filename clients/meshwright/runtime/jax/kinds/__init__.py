"""JAX kernels of the canonical kinds of ops."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from meshwright.runtime.jax.kinds import arithmetic, layers, mixture, recurrent, shape
from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel, call_of

KERNELS: dict[str, Kernel] = {
    **arithmetic.KERNELS,
    **shape.KERNELS,
    **layers.KERNELS,
    **mixture.KERNELS,
    **recurrent.KERNELS,
}

__all__ = ["KERNELS", "JaxOpCall", "call_of", "results_of"]


def results_of(call: JaxOpCall) -> Sequence[jax.Array]:
    """The outputs of an op; raises KeyError for a kind without a kernel."""
    outputs = KERNELS[call.op.kind](call)
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]
