"""Parameter states: layouts of value, accumulated gradient and optimizer state at rest.

A state has one code per mesh axis. For a parameter with n shardable slots, let z be the slot that
the largest part of the mesh divides; of several such, the largest slot.

    code     value   gradient   optimizer    known as
    0..n-1   S       S          S            tensor parallelism; ZeRO-3 if the reader needs all
    n        R       R          R            replicated, data parallelism
    n + 1    R       R          S on z       ZeRO-1
    n + 2    R       S on z     S on z       ZeRO-2

Each layout is equal to or finer than the one before; the value is equal to or finer than its reader
needs. A parameter without gradient, or of less than OPTIMIZER_SHARD_BYTES, has only the codes
0 .. n. With one microbatch a step ZeRO-1 is never better than ZeRO-2 and is left out. A request
(`meshwright_solver.strategies.optimizer_sharding`) takes precedence.

A *place* adds n + 3 times its number to the codes of all axes. Places are:

- states in part on hosts, where the request allows it (`meshwright_solver.strategies.offload`)
- sparse gradients, with codes up to n (`meshwright_solver.strategies.sparse_gradients`)
- owners along the axes of code n, where z has no further cut
  (`meshwright_solver.strategies.parameter_owners`)
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
from meshwright.schema.stage import Resting
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

# part of the state -> by place, whether it lies on the device
_ON_DEVICE = {
    part: np.array([part not in hosted for hosted in ON_HOST], dtype=np.bool_)
    for part in get_args(Resting)
}
# MindSpore's default parallel_optimizer_threshold: below it, collectives cost more than they save
OPTIMIZER_SHARD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table whose gradient can be sparse. elements: of one row; slots: that cut rows.

    may_be_sparse: whether a search may choose a sparse gradient.
    """

    elements: int
    slots: frozenset[int]
    may_be_sparse: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterStates:
    """The states of a parameter on a mesh, and their memory.

    space: of the value as its readers see it, with gradient where it is trained. at_rest: the
    allowed states. host: None without offload. is_table: one op alone reads the parameter, and only
    rows of it. rows: None where the gradient cannot be sparse.
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
        """The slot z of the module docstring."""
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
            is_requested = self.at_rest.optimizer_parallel is not None
            codes += [n + 1, n + 2] if is_requested or self.microbatches > 1 else [n + 2]
        plain = self._states(codes)
        placed = [plain + self.space.base * place for place in self._places()]
        if self.trained and self.rows is not None and self.rows.may_be_sparse:
            placed.append(plain[(plain <= n).all(axis=1)] + self.space.base * ROWS)
        if self.trained and len(codes) > n + 1:
            dealt = plain[self.may_be_dealt(plain)]
            if self.at_rest.deals:
                placed.append(dealt + self.space.base * DEALT)
            if self.at_rest.deals_gradients:
                placed.append(dealt[self.has_fine_gradient(dealt)] + self.space.base * DEALT_TOO)
        return np.concatenate(placed)

    def may_be_dealt(self, plain: IntArray) -> NDArray[np.bool_]:
        """(states,): whether some axis cuts nothing, and no such axis can cut z."""
        is_whole = np.zeros(len(plain), dtype=np.bool_)
        may = np.ones(len(plain), dtype=np.bool_)
        for a, size in enumerate(self.space.axis_sizes):
            whole = (plain[:, a] == self.space.slots) & (size > 1)
            finer = self.optimizer(plain)
            finer[:, a] = self.optimizer_slot
            may &= ~whole | ~self.space.valid(finer)
            is_whole |= whole
        return is_whole & may

    def has_fine_gradient(self, plain: IntArray) -> NDArray[np.bool_]:
        """(states,): whether the gradient is sharded like the optimizer state."""
        is_fine: NDArray[np.bool_] = (plain != self.space.slots + 1).all(axis=-1)
        return is_fine

    def deals_gradient(self, states: IntArray) -> NDArray[np.bool_]:
        """(states,): whether the owner holds the gradient with the optimizer state."""
        deals: NDArray[np.bool_] = self.place(states) == DEALT_TOO
        return deals

    def dealt_axes(self, states: IntArray) -> NDArray[np.bool_]:
        """(states, axes): whether an axis belongs to the group of an owner."""
        sizes = np.array(self.space.axis_sizes)
        whole = (self.plain(states) == self.space.slots) & (sizes > 1)
        is_dealt = np.isin(self.place(states), (DEALT, DEALT_TOO))
        dealt: NDArray[np.bool_] = whole & is_dealt[..., None]
        return dealt

    def _dealt_ways(self, states: IntArray) -> FloatArray:
        sizes = np.array(self.space.axis_sizes, dtype=np.float64)
        ways: FloatArray = np.where(self.dealt_axes(states), sizes, 1.0).prod(axis=-1)
        return ways

    def _places(self) -> Iterator[int]:
        """Places that a search may choose for the state."""
        yield DEVICE
        if self.host is None or self.space.bytes < OPTIMIZER_SHARD_BYTES:
            return
        if self.trained and self.at_rest.hosts_optimizer:
            # with one microbatch the gradient is sent once in both places
            yield from (OPTIMIZER, GRADIENT) if self.microbatches > 1 else (GRADIENT,)
        if self.is_table and self.at_rest.hosts_tables:
            yield TABLE

    @cached_property
    def may_be_looked_up_on_host(self) -> bool:
        return TABLE in self._places()

    def place(self, states: IntArray) -> IntArray:
        """Places of states of the shape (.., axes)."""
        return states[..., 0] // self.space.base

    def is_any_hosted(self, states: IntArray) -> bool:
        """Whether any state has a place other than DEVICE."""
        return bool((states[..., 0] >= self.space.base).any())

    def is_sparse(self, states: IntArray) -> NDArray[np.bool_]:
        """(states,): whether the gradient is sparse."""
        sparse: NDArray[np.bool_] = self.place(states) == ROWS
        return sparse

    def on_host(self, state: IntArray) -> tuple[Resting, ...]:
        """Parts of one state on hosts."""
        parts = ON_HOST[int(self.place(state))]
        return parts if self.trained else tuple(part for part in parts if part == "value")

    def plain(self, states: IntArray) -> IntArray:
        """The states of the same layouts in the place DEVICE."""
        return states % self.space.base

    @cached_property
    def every_state(self) -> IntArray:
        """All states of a plan in the place DEVICE, (states, axes)."""
        n = self.space.slots
        return self._states(list(range(n + 3 if self.trained and n else n + 1)))

    def _states(self, codes: list[int]) -> IntArray:
        n = self.space.slots
        axis_codes = [codes if size > 1 else [n] for size in self.space.axis_sizes]
        rows = np.array(list(product(*axis_codes)), dtype=np.int64).reshape(-1, len(axis_codes))
        return rows[self.space.valid(self.optimizer(rows))]

    def value(self, states: IntArray) -> IntArray:
        """The value's layout, in codes of the space."""
        return np.minimum(self.plain(states), self.space.slots)

    def gradient(self, states: IntArray) -> IntArray:
        """The layout of the accumulated gradient."""
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
            np.where(is_on_device[place], part_bytes, 0.0)
            for is_on_device, part_bytes in zip(_ON_DEVICE.values(), held, strict=True)
        )
        return value, gradient, optimizer

    def host_bytes(self, states: IntArray) -> FloatArray:
        """Bytes in a device's share of its host."""
        held, on_device = self.held_bytes(states), self.memory_bytes(states)
        return np.asarray(sum(held), dtype=np.float64) - sum(on_device)

    def held_bytes(self, states: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bytes of a device's part of value, gradient and optimizer, on device or host."""
        share = self.space.local_bytes(self.value(states)) / self.space.bytes
        value = self.space.bytes * share
        if not self.trained:
            return value, np.zeros(len(states)), np.zeros(len(states))
        gradient = self.space.local_bytes(self.gradient(states)) / self.space.bytes
        if self.is_any_hosted(states):
            ways = self._dealt_ways(states)
            gradient = np.where(self.deals_gradient(states), gradient / ways, gradient)
        gradient = np.where(self.is_sparse(states), 0.0, gradient)  # counted at its lookup
        elements = self.updated_elements(states)
        return (
            value,
            gradient * self.elements * DTYPE_BYTES[self.setup.gradient_dtype],
            elements * self.optimizer_element_bytes,
        )

    def updated_elements(self, states: IntArray) -> FloatArray:
        """Elements that a device updates; of states with owners, the mean over the group."""
        local = self.space.local_bytes(self.optimizer(states)) / self.space.bytes * self.elements
        return local / self._dealt_ways(states) if self.is_any_hosted(states) else local

    @property
    def element_bytes(self) -> ElementBytes:
        gradient = DTYPE_BYTES[self.setup.gradient_dtype]
        return ElementBytes(DTYPE_BYTES[self.dtype], gradient, self.optimizer_element_bytes)

    @property
    def optimizer_element_bytes(self) -> int:
        """Bytes of optimizer state and master copy of one element."""
        return self.setup.optimizer_element_bytes(self.dtype)
