"""Offload of parameters to host memory: places of their states, and the times of each place.

    place       on the host                device     per step, of a device's part
    DEVICE      -                          all        -
    OPTIMIZER   optimizer state            the rest   gradient down, update there, value up
    GRADIENT    optimizer state, gradient  value      the same, gradient down in every microbatch
    TABLE       all of an embedding table  -          rows up, their gradients down, in every
                                                      microbatch; touched rows are updated
    ROWS        -                          all        -; its gradient is sparse
                                                      (`meshwright_solver.strategies.sparse_gradients`)
    DEALT       -                          all        -; optimizer state whole on an owner
                                                      (`meshwright_solver.strategies.parameter_owners`)
    DEALT_TOO   -                          all        -; gradient and optimizer state on an owner

Each device's part lies in its share of its host, so that layouts are the same as on devices.

    update there     (2 * state bytes + 2 * master copy + gradient + value) / host memory bandwidth;
                     of a table, the rows that were looked up, at most all rows
    accumulation     the host reads, adds and writes gradients after the first (of rows: all)
    lookup           the host reads the rows; every reader needs the table in its resting layout

Updates and lookups count in full. Transfers up are exposed like parameter gathers; transfers down
and sums on the host are exposed like gradient reductions (`Calibration.exposed`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright.schema import Exposed
from meshwright.schema.stage import Resting
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
    """Host times of one step, ns. work: lookups and updates; up, down: transfers from and to it."""

    work: FloatArray
    up: FloatArray
    down: FloatArray

    def exposed(self, share: Exposed) -> FloatArray:
        """Exposed time of work and transfers, ns."""
        return self.work + self.link_exposed(share)

    def link_exposed(self, share: Exposed) -> FloatArray:
        return self.up * share.parameter + self.down * share.gradient


@dataclass(frozen=True, slots=True)
class ElementBytes:
    """Bytes of one element of a parameter. optimizer: states and master copy."""

    value: int
    gradient: int
    optimizer: int

    @property
    def updated(self) -> int:
        """Bytes that an update reads and writes."""
        return 2 * self.optimizer + self.gradient + self.value


def update_times(
    rates: HostRates,
    size: ElementBytes,
    elements: FloatArray,
    place: IntArray,
    microbatches: int,
    bucket_bytes: int,
) -> HostTimes:
    """Host times of updates of offloaded parameters; zero outside of OPTIMIZER and GRADIENT.

    elements: of a parameter on a device.
    """
    updates = (place == OPTIMIZER) | (place == GRADIENT)
    times = np.where(place == GRADIENT, microbatches, 1)
    added = rates.memory_ns(elements * 2 * size.gradient) * (times - 1)
    work = rates.memory_ns(elements * size.updated)
    down = rates.link_ns(elements * size.gradient, bucket_bytes) * times + added
    up = rates.link_ns(elements * size.value, bucket_bytes)
    return HostTimes(*(np.where(updates, ns, 0.0) for ns in (work, up, down)))


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
    """Host times of lookups in offloaded tables.

    elements: of the table on a device. looked_up: elements of the rows that one microbatch looks up
    on a device. Both have the shape of the result.
    """
    rows = looked_up * size.value
    up = rates.link_ns(rows, bucket_bytes) * microbatches
    work = rates.memory_ns(rows) * microbatches
    if not trained:
        return HostTimes(work, up, np.zeros(np.shape(up)))
    # row gradients arrive in the value's dtype and are summed in the gradient's
    added = rates.memory_ns(2 * looked_up * size.gradient)
    touched = np.minimum(elements, looked_up * microbatches)
    work = work + rates.memory_ns(touched * size.updated)
    return HostTimes(work, up, (rates.link_ns(rows, bucket_bytes) + added) * microbatches)
