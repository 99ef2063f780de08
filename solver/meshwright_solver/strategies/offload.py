"""Parameters in hosts' memory: what lies there, what it costs, what it takes.

    place       on the host                device     per step, of a device's part
    DEVICE      -                          all        -
    OPTIMIZER   optimizer state            the rest   gradient down, update there, value up
    GRADIENT    optimizer state, gradient  value      the same, gradient down in every microbatch
    TABLE       all of an embedding table  -          rows up, their gradients down, in every
                                                      microbatch; touched rows are updated
    ROWS        -                          all        -; its gradient is sparse
                                                      (`meshwright_solver.strategies.sparse_gradients`)
    DEALT       -                          all        -; optimizer state on one device of a group
                                                      (`meshwright_solver.strategies.parameter_owners`)
    DEALT_TOO   -                          all        -; the gradient too

Each device's part lies in its share of its host, so that layouts mean what they mean on devices.

    update there     (2 * state bytes + 2 * master copy + gradient + value) / host memory bandwidth;
                     of a table the same of the rows that were looked up, at most of all
    accumulation     gradients after the first (of rows: all) are read, added and written there
    lookup           the rows read there; of a table that no device needs otherwise than it lies

Updates and lookups count in full. What goes up is hidden like gathers of parameters, what goes down
and is summed there like reductions of gradients (`Calibration.exposed`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright.schema import Exposed
from meshwright.schema.plan import Resting
from meshwright_costmodel.host_rates import HostRates
from meshwright_solver.common.arrays import FloatArray, IntArray

DEVICE, OPTIMIZER, GRADIENT, TABLE, ROWS, DEALT, DEALT_TOO = range(7)

ON_HOST: tuple[tuple[Resting, ...], ...] = (
    (),
    ("optimizer",),
    ("gradient", "optimizer"),
    ("value", "gradient", "optimizer"),
    (),
    (),
    (),
)


@dataclass(frozen=True, slots=True)
class HostTimes:
    """ns of one step: of lookups and updates on the host, and of the ways up and down."""

    work: FloatArray
    up: FloatArray
    down: FloatArray

    def exposed(self, share: Exposed) -> FloatArray:
        """What computation on the device does not hide."""
        return self.work + self.link_exposed(share)

    def link_exposed(self, share: Exposed) -> FloatArray:
        return self.up * share.parameter + self.down * share.gradient


@dataclass(frozen=True, slots=True)
class ElementBytes:
    """Of one element of a parameter; optimizer: states and master copy."""

    value: int
    gradient: int
    optimizer: int

    @property
    def updated(self) -> int:
        """What an update reads and writes."""
        return 2 * self.optimizer + self.gradient + self.value


def update_times(
    rates: HostRates,
    size: ElementBytes,
    elements: FloatArray,
    place: IntArray,
    microbatches: int,
    bucket_bytes: int,
) -> HostTimes:
    """Of parameters with so many elements on a device, in the places OPTIMIZER and GRADIENT."""
    updates = (place == OPTIMIZER) | (place == GRADIENT)
    times = np.where(place == GRADIENT, microbatches, 1)
    added = rates.memory_ns(elements * 2 * size.gradient) * (times - 1)
    work = rates.memory_ns(elements * size.updated)
    down = rates.link_ns(elements * size.gradient, bucket_bytes) * times + added
    up = rates.link_ns(elements * size.value, bucket_bytes)
    return HostTimes(*(np.where(updates, own, 0.0) for own in (work, up, down)))


def lookup_times(
    rates: HostRates,
    size: ElementBytes,
    elements: FloatArray,
    looked_up: FloatArray,
    *,
    microbatches: int,
    bucket_bytes: int,
    trained: bool,
) -> HostTimes:
    """Of tables; looked_up: elements of the rows that one microbatch asks a device for.

    elements: of the table on a device. Both have the shape of the result.
    """
    rows = looked_up * size.value
    up = rates.link_ns(rows, bucket_bytes) * microbatches
    work = rates.memory_ns(rows) * microbatches
    if not trained:
        return HostTimes(work, up, np.zeros(np.shape(up)))
    # gradients of rows come in the dtype of the rows and are summed in the gradient's
    added = rates.memory_ns(2 * looked_up * size.gradient)
    touched = np.minimum(elements, looked_up * microbatches)
    work = work + rates.memory_ns(touched * size.updated)
    return HostTimes(work, up, (rates.link_ns(rows, bucket_bytes) + added) * microbatches)
