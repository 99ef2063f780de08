"""Parameters at rest: layouts of value, accumulated gradient and optimizer state.

One code per mesh axis. For a parameter with n shardable slots, of which z is the one that most of
the mesh divides, and of such the largest,

    code     value   gradient   optimizer    known as
    0..n-1   S       S          S            tensor parallelism; ZeRO-3 where its reader needs all
    n        R       R          R            replicated, data parallelism
    n + 1    R       R          S on z       ZeRO-1
    n + 2    R       S on z     S on z       ZeRO-2

Each layout is equal to or finer than the one before, and the value than what its reader needs. A
parameter without gradient, or of less than OPTIMIZER_SHARD_BYTES, has the codes 0 .. n only; with
one microbatch a step ZeRO-1 is never better than ZeRO-2 and left out. What a request says of all
this (`meshwright_solver.strategies.optimizer_sharding`) goes before.

Where the request allows it, some of this may lie on hosts (`meshwright_solver.strategies.offload`):
the codes of all axes are then n + 3 times the place larger. So are those with a sparse gradient
(`meshwright_solver.strategies.sparse_gradients`), in codes up to n, and those that are dealt out
whole over all axes with the code n, where nothing more of z can be cut
(`meshwright_solver.strategies.parameter_owners`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import DTYPE_BYTES, Setup
from meshwright.schema.plan import Resting
from meshwright_costmodel.host_rates import HostRates
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.strategies.offload import (
    DEALT,
    DEALT_TOO,
    DEVICE,
    GRADIENT,
    ON_HOST,
    OPTIMIZER,
    ROWS,
    TABLE,
    ElementBytes,
)
from meshwright_solver.strategies.optimizer_sharding import AS_SEARCHED, OptimizerSharding

# by place: whether it lies on the device
_ON_DEVICE = {
    part: np.array([part not in own for own in ON_HOST], dtype=np.bool_)
    for part in get_args(Resting)
}
# MindSpore's default parallel_optimizer_threshold: below it, collectives cost more than they save
OPTIMIZER_SHARD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TableRows:
    """Of a table whose gradient can be sparse: elements of one, and on which slots they are cut.

    may_be_sparse: whether a search may choose that.
    """

    elements: int
    slots: frozenset[int]
    may_be_sparse: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterStates:
    """The states of a parameter on a mesh, and what they hold.

    space: of the value as its readers see it (with gradient where it is trained). at_rest: what is
    asked for. host: None where nothing can lie there. is_table: only one op reads it, and of it
    only rows. rows: None where its gradient cannot be sparse.
    """

    space: StateSpace
    dtype: str
    setup: Setup
    microbatches: int
    at_rest: OptimizerSharding = AS_SEARCHED
    host: HostRates | None = None
    is_table: bool = False
    rows: TableRows | None = None

    @property
    def trained(self) -> bool:
        return self.space.has_gradient

    @property
    def elements(self) -> int:
        return self.space.bytes // DTYPE_BYTES[self.dtype]

    @cached_property
    def optimizer_slot(self) -> int:
        """z above."""
        space, everyone = self.space, prod(self.space.axis_sizes)
        ways = [gcd(length, everyone) for length in space.spans or space.slot_sizes]
        slots = range(space.slots)
        return max(slots, key=lambda k: (ways[k], space.slot_sizes[k], -k), default=-1)

    @cached_property
    def states(self) -> IntArray:
        """The states that a search chooses from, (states, axes)."""
        n = self.space.slots
        codes = list(range(n + 1))
        if self.trained and n and self.at_rest.may_shard(self.space.bytes, OPTIMIZER_SHARD_BYTES):
            asked = self.at_rest.optimizer_parallel is not None
            codes += [n + 1, n + 2] if asked or self.microbatches > 1 else [n + 2]
        found = self._states(codes)
        placed = [found + self.space.base * place for place in self._places()]
        if self.trained and self.rows is not None and self.rows.may_be_sparse:
            placed.append(found[(found <= n).all(axis=1)] + self.space.base * ROWS)
        if self.trained and len(codes) > n + 1:
            dealt = found[self.is_cut_no_more(found)]
            if self.at_rest.deals:
                placed.append(dealt + self.space.base * DEALT)
            if self.at_rest.deals_gradients:
                placed.append(dealt[self.has_fine_gradient(dealt)] + self.space.base * DEALT_TOO)
        return np.concatenate(placed)

    def is_cut_no_more(self, plain: IntArray) -> NDArray[np.bool_]:
        """Whether something is whole along an axis, and z cannot be cut by any such axis."""
        found = np.zeros(len(plain), dtype=np.bool_)
        may = np.ones(len(plain), dtype=np.bool_)
        for a, size in enumerate(self.space.axis_sizes):
            whole = (plain[:, a] == self.space.slots) & (size > 1)
            finer = self.optimizer(plain)
            finer[:, a] = self.optimizer_slot
            may &= ~whole | ~self.space.valid(finer)
            found |= whole
        return found & may

    def has_fine_gradient(self, plain: IntArray) -> NDArray[np.bool_]:
        """Whether the gradient is cut as the optimizer state."""
        found: NDArray[np.bool_] = (plain != self.space.slots + 1).all(axis=-1)
        return found

    def deals_gradient(self, states: IntArray) -> NDArray[np.bool_]:
        """Whether the gradient lies with the optimizer state."""
        found: NDArray[np.bool_] = self.place(states) == DEALT_TOO
        return found

    def dealt_axes(self, states: IntArray) -> NDArray[np.bool_]:
        """(states, axes): along which one device of a group keeps the optimizer state."""
        sizes = np.array(self.space.axis_sizes)
        whole = (self.plain(states) == self.space.slots) & (sizes > 1)
        is_dealt = np.isin(self.place(states), (DEALT, DEALT_TOO))
        found: NDArray[np.bool_] = whole & is_dealt[..., None]
        return found

    def _dealt_ways(self, states: IntArray) -> FloatArray:
        sizes = np.array(self.space.axis_sizes, dtype=np.float64)
        found: FloatArray = np.where(self.dealt_axes(states), sizes, 1.0).prod(axis=-1)
        return found

    def _places(self) -> Iterator[int]:
        """Where a search may keep it."""
        yield DEVICE
        if self.host is None or self.space.bytes < OPTIMIZER_SHARD_BYTES:
            return
        if self.trained and self.at_rest.hosts_optimizer:
            # with one microbatch a gradient is sent once in any case
            yield from (OPTIMIZER, GRADIENT) if self.microbatches > 1 else (GRADIENT,)
        if self.is_table and self.at_rest.hosts_tables:
            yield TABLE

    @cached_property
    def may_be_looked_up_on_host(self) -> bool:
        return TABLE in self._places()

    def place(self, states: IntArray) -> IntArray:
        """Where states of the shape (.., axes) lie."""
        return states[..., 0] // self.space.base

    def is_any_hosted(self, states: IntArray) -> bool:
        """Whether any state lies on hosts, in part."""
        return bool((states[..., 0] >= self.space.base).any())

    def is_sparse(self, states: IntArray) -> NDArray[np.bool_]:
        """Whether gradients are ids and rows."""
        found: NDArray[np.bool_] = self.place(states) == ROWS
        return found

    def on_host(self, state: IntArray) -> tuple[Resting, ...]:
        """What of the parameter lies on hosts in one state."""
        own = ON_HOST[int(self.place(state))]
        return own if self.trained else tuple(part for part in own if part == "value")

    def plain(self, states: IntArray) -> IntArray:
        """The same layouts on the device."""
        return states % self.space.base

    @cached_property
    def every_state(self) -> IntArray:
        """All states on the device that a plan may have, (states, axes)."""
        n = self.space.slots
        return self._states(list(range(n + 3 if self.trained and n else n + 1)))

    def _states(self, codes: list[int]) -> IntArray:
        n = self.space.slots
        own = [codes if size > 1 else [n] for size in self.space.axis_sizes]
        rows = np.array(list(product(*own)), dtype=np.int64).reshape(-1, len(own))
        return rows[self.space.valid(self.optimizer(rows))]

    def value(self, states: IntArray) -> IntArray:
        """The value's layout, in codes of the space."""
        return np.minimum(self.plain(states), self.space.slots)

    def gradient(self, states: IntArray) -> IntArray:
        """The layout in which the gradient is kept."""
        n, plain = self.space.slots, self.plain(states)
        return np.where(plain == n + 2, self.optimizer_slot, np.minimum(plain, n))

    def optimizer(self, states: IntArray) -> IntArray:
        """The layout of optimizer state and master copy."""
        plain = self.plain(states)
        return np.where(plain > self.space.slots, self.optimizer_slot, plain)

    def memory_bytes(self, states: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bytes of value, gradient and optimizer on one device."""
        held = self.held_bytes(states)
        if not self.is_any_hosted(states):
            return held
        place = self.place(states)
        value, gradient, optimizer = (
            np.where(kept[place], own, 0.0)
            for kept, own in zip(_ON_DEVICE.values(), held, strict=True)
        )
        return value, gradient, optimizer

    def host_bytes(self, states: IntArray) -> FloatArray:
        """Bytes in a device's share of its host."""
        held, on_device = self.held_bytes(states), self.memory_bytes(states)
        return np.asarray(sum(held), dtype=np.float64) - sum(on_device)

    def held_bytes(self, states: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bytes of a device's part of value, gradient and optimizer, wherever they lie."""
        share = self.space.local_bytes(self.value(states)) / self.space.bytes
        value = self.space.bytes * share
        if not self.trained:
            return value, np.zeros(len(states)), np.zeros(len(states))
        gradient = self.space.local_bytes(self.gradient(states)) / self.space.bytes
        if self.is_any_hosted(states):
            ways = self._dealt_ways(states)
            gradient = np.where(self.deals_gradient(states), gradient / ways, gradient)
        gradient = np.where(self.is_sparse(states), 0.0, gradient)  # its lookup says how much
        elements = self.updated_elements(states)
        return (
            value,
            gradient * self.elements * DTYPE_BYTES[self.setup.gradient_dtype],
            elements * self.optimizer_element_bytes,
        )

    def updated_elements(self, states: IntArray) -> FloatArray:
        """How many elements a device updates; of what is dealt out the mean of a group."""
        local = self.space.local_bytes(self.optimizer(states)) / self.space.bytes * self.elements
        return local / self._dealt_ways(states) if self.is_any_hosted(states) else local

    @property
    def element_bytes(self) -> ElementBytes:
        gradient = DTYPE_BYTES[self.setup.gradient_dtype]
        return ElementBytes(DTYPE_BYTES[self.dtype], gradient, self.optimizer_element_bytes)

    @property
    def optimizer_element_bytes(self) -> int:
        """What the optimizer keeps of an element."""
        return self.setup.optimizer_element_bytes(self.dtype)
