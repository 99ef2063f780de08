"""What the canonical kinds of a graph compute, in JAX."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from meshwright.runtime.jax.kinds import arithmetic, layers, mixture, shape
from meshwright.runtime.jax.kinds.call import Call, Kernel, call_of

KERNELS: dict[str, Kernel] = {
    **arithmetic.KERNELS,
    **shape.KERNELS,
    **layers.KERNELS,
    **mixture.KERNELS,
}

__all__ = ["KERNELS", "Call", "call_of", "results_of"]


def results_of(call: Call) -> Sequence[jax.Array]:
    """What an op makes; KeyError for a kind that has no kernel."""
    made = KERNELS[call.op.kind](call)
    return made if isinstance(made, (list, tuple)) else [made]
