"""Op profiles: the time and the memory of every op of a graph.

Ops are numbered by position in `Anatomy.order`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshwright_solver.common.arrays import FloatArray


@dataclass(frozen=True)
class OpProfile:
    """Time and memory by op; each array has the shape (ops,).

    ns: of one step. static_bytes: held all the time. saved_bytes: saved activations of one
    microbatch. waiting_bytes: buffers of one microbatch between the halves of a split backward
    pass. passing_bytes: transient memory while the op runs.
    """

    ns: FloatArray
    static_bytes: FloatArray
    saved_bytes: FloatArray
    waiting_bytes: FloatArray
    passing_bytes: FloatArray

    def by_bytes(self, held: float) -> OpProfile:
        """For cuts that balance the bytes of so many microbatches instead of the time."""
        return replace(self, ns=self.static_bytes + held * self.saved_bytes)
