"""The work of one microbatch of a graph on one device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from meshwright.schema import Passes
from meshwright_solver.common.arrays import FloatArray


@dataclass(frozen=True)
class Work:
    """The work of one microbatch on one device, each op at its fastest.

    of_ops: (ops, 3), ns of the passes forward, inputs and weights, of all copies of an op.
    launches: (3,), ns of launches by pass, which more devices do not shorten.
    """

    of_ops: FloatArray
    launches: FloatArray

    @cached_property
    def busy_ns(self) -> float:
        return float(self.of_ops.sum())

    @property
    def launches_ns(self) -> float:
        return float(self.launches.sum())

    def passes(self, devices: float) -> Passes:
        """The least passes of a rank that has the whole graph on so many devices."""
        forward, inputs, weights = (self.of_ops.sum(axis=0) / devices + self.launches).tolist()
        return Passes(forward_ns=forward, inputs_ns=inputs, weights_ns=weights, step_ns=0.0)
