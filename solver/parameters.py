"""Parameters at rest: layouts of value, accumulated gradient and optimizer state.

One code per mesh axis. For a parameter with n shardable slots, of which z is the largest,

    code     value   gradient   optimizer    known as
    0..n-1   S       S          S            tensor parallelism; ZeRO-3 where its reader needs all
    n        R       R          R            replicated, data parallelism
    n + 1    R       R          S on z       ZeRO-1
    n + 2    R       S on z     S on z       ZeRO-2

Each layout is equal to or finer than the one before, and the value than what its reader needs. A
parameter without gradient, or of less than OPTIMIZER_SHARD_BYTES, has the codes 0 .. n only; with
one microbatch a step ZeRO-1 is never better than ZeRO-2 and left out. What a request says of all
this (`solver.at_rest`) goes before.

    per microbatch   value at rest -> as the reader needs it, forward, and again backward
                     gradient as the reader leaves it -> accumulated
    per step         accumulated gradient -> optimizer layout;  optimizer layout -> value at rest
    optimizer time   (2 * state bytes + 2 * master copy + gradient + value) / memory bandwidth

Gradients of axes on which nothing is sharded are accumulated as partial sums and reduced once.

Frameworks send parameters and gradients in buckets: one of n bytes pays n / BUCKET_BYTES of a
collective's latency, and the bandwidth of all its bytes. The value of a parameter of less than
OPTIMIZER_SHARD_BYTES is in no bucket: it stays whole unless its reader wants a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Interconnect
from meshwright.schema import DTYPE_BYTES, Calibration, Device, Setup
from solver.at_rest import AS_SEARCHED, AtRest
from solver.redistribution import Redistributions
from solver.states import FloatArray, IntArray, StateSpace

NS_PER_S = 1e9
# MindSpore's default parallel_optimizer_threshold: below it, collectives cost more than they save
OPTIMIZER_SHARD_BYTES = 64 * 1024
# PyTorch DistributedDataParallel's default, bucket_cap_mb = 25
BUCKET_BYTES = 25 * 1024 * 1024


def optimizer_element_bytes(setup: Setup, dtype: str) -> int:
    """Optimizer states and the master copy, where its dtype is not the parameter's own."""
    states = setup.optimizer.states * DTYPE_BYTES[setup.optimizer.state_dtype]
    master = setup.master_dtype
    return states + (DTYPE_BYTES[master] if master not in (None, dtype) else 0)


@dataclass(frozen=True, eq=False)
class ParameterModel:
    """The states of a parameter on a mesh; `Models` keeps one for all parameters of equal content.

    space: of the value as its readers see it (with gradient where it is trained). at_rest: what is
    asked for.
    """

    space: StateSpace
    dtype: str
    setup: Setup
    microbatches: int
    device: Device
    calibration: Calibration
    interconnect: Interconnect
    axis_levels: tuple[int, ...]
    at_rest: AtRest = AS_SEARCHED

    @property
    def trained(self) -> bool:
        return self.space.has_gradient

    @property
    def elements(self) -> int:
        return self.space.bytes // DTYPE_BYTES[self.dtype]

    @property
    def largest_slot(self) -> int:
        sizes = self.space.slot_sizes
        return max(range(len(sizes)), key=lambda k: (sizes[k], -k), default=-1)

    @cached_property
    def states(self) -> IntArray:
        """The states that a search chooses from, (states, axes)."""
        n = self.space.slots
        codes = list(range(n + 1))
        if self.trained and n and self.at_rest.may_shard(self.space.bytes, OPTIMIZER_SHARD_BYTES):
            asked = self.at_rest.optimizer_parallel is not None
            codes += [n + 1, n + 2] if asked or self.microbatches > 1 else [n + 2]
        return self._states(codes)

    @cached_property
    def every_state(self) -> IntArray:
        """All states that a plan may have, (states, axes)."""
        n = self.space.slots
        return self._states(list(range(n + 3 if self.trained and n else n + 1)))

    def _states(self, codes: list[int]) -> IntArray:
        n = self.space.slots
        own = [codes if size > 1 else [n] for size in self.space.axis_sizes]
        rows = np.array(list(product(*own)), dtype=np.int64).reshape(-1, len(own))
        return rows[self.space.valid(self.optimizer(rows))]

    def value(self, states: IntArray) -> IntArray:
        """The value's layout, in codes of the space."""
        return np.minimum(states, self.space.slots)

    def gradient(self, states: IntArray) -> IntArray:
        """The layout in which the gradient is kept."""
        n = self.space.slots
        return np.where(states == n + 2, self.largest_slot, np.minimum(states, n))

    def optimizer(self, states: IntArray) -> IntArray:
        """The layout of optimizer state and master copy."""
        n = self.space.slots
        return np.where(states > n, self.largest_slot, states)

    @cached_property
    def value_moves(self) -> Redistributions:
        is_small = self.space.bytes < OPTIMIZER_SHARD_BYTES
        return self._moves(self.space.bytes, BUCKET_BYTES if not is_small else 1)

    @cached_property
    def gradient_moves(self) -> Redistributions:
        size_bytes = self.elements * DTYPE_BYTES[self.setup.gradient_dtype]
        return self._moves(size_bytes, BUCKET_BYTES)

    def _moves(self, size_bytes: int, bucket_bytes: int) -> Redistributions:
        space = replace(self.space, bytes=size_bytes, has_gradient=False)
        share = min(1.0, size_bytes / bucket_bytes)
        latency_ns = tuple(round(ns * share) for ns in self.interconnect.latency_ns)
        bucketed = replace(self.interconnect, latency_ns=latency_ns)
        return Redistributions(space, self.axis_levels, bucketed, order_is_free=True)

    def memory_bytes(self, states: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bytes of value, gradient and optimizer on one device."""
        share = self.space.local_bytes(self.value(states)) / self.space.bytes
        value = self.space.bytes * share
        if not self.trained:
            return value, np.zeros(len(states)), np.zeros(len(states))
        gradient = self.space.local_bytes(self.gradient(states)) / self.space.bytes
        optimizer = self.space.local_bytes(self.optimizer(states)) / self.space.bytes
        return (
            value,
            gradient * self.elements * DTYPE_BYTES[self.setup.gradient_dtype],
            optimizer * self.elements * self.optimizer_element_bytes,
        )

    @property
    def optimizer_element_bytes(self) -> int:
        """What the optimizer keeps of an element."""
        return optimizer_element_bytes(self.setup, self.dtype)

    def update_ns(self, states: IntArray) -> FloatArray:
        """The optimizer's own time in one step."""
        if not self.trained:
            return np.zeros(len(states))
        share = self.space.local_bytes(self.optimizer(states)) / self.space.bytes
        moved = 2 * self.optimizer_element_bytes + DTYPE_BYTES[self.setup.gradient_dtype]
        moved += DTYPE_BYTES[self.dtype]
        rate = self.device.memory_bytes_per_s * self.calibration.efficiency.memory
        return share * self.elements * moved / rate * NS_PER_S

    def spread_ns(self, states: IntArray) -> FloatArray:
        """Per step: the updated parameter from the optimizer's layout to the value's."""
        if not self.trained:
            return np.zeros(len(states))
        moves = self.value_moves
        return moves.forward_ns(
            moves.space.index(self.optimizer(states)), moves.space.index(self.value(states))
        )

    def read_value(self, needed: IntArray) -> IntArray:
        """The value's layout in a state that a reader needs: V is replicated."""
        return np.minimum(needed, self.space.slots)

    def left_gradient(self, needed: IntArray) -> IntArray:
        """The gradient's layout as the reader leaves it: V is partial."""
        n = self.space.slots
        return np.where(needed == n + 2, n + 1, needed)

    def accumulated(self, states: IntArray, needed: IntArray) -> IntArray:
        """(states, needed, axes): the layout in which gradients of microbatches are summed."""
        kept = self.gradient(states)[:, None, :]
        left = self.left_gradient(needed)[None, :, :]
        return np.where(kept < self.space.slots, kept, left)

    def gather_ns(self, states: IntArray, needed: IntArray) -> FloatArray:
        """(states, needed): the value to its reader, once; inf where it rests less fine."""
        moves = self.value_moves
        rows = moves.space.index(self.value(states))
        columns = moves.space.index(self.read_value(needed))
        split = needed[None, :, :] < self.space.slots
        coarser = (split & (self.value(states)[:, None, :] != needed[None, :, :])).any(axis=2)
        return np.where(coarser, np.inf, moves.forward_ns(rows[:, None], columns[None, :]))

    def order(self, state: IntArray, needed: IntArray) -> tuple[int, ...]:
        """Ranks of the axes on a slot: the reader's first, the value's, the gradient's, the rest.

        Every gather takes, and every reduction gives, the last axes of its slots: neighbours. Of
        equal axes those come first on which the reader leaves equal gradients: these are sliced
        before the others are reduced.
        """
        n = self.space.slots
        chain = (needed, self.value(state), self.gradient(state))
        return tuple(
            2 * next((rank for rank, codes in enumerate(chain) if codes[a] < n), len(chain))
            + int(needed[a] != n)
            for a in range(len(state))
        )

    def reduce_ns(self, states: IntArray, needed: IntArray) -> tuple[FloatArray, FloatArray]:
        """(states, needed): gradient to its accumulator, then per step to the optimizer."""
        shape = (len(states), len(needed))
        if not self.trained:
            return np.zeros(shape), np.zeros(shape)
        moves = self.gradient_moves
        kept = self.accumulated(states, needed)
        at = moves.space.index(kept.reshape(-1, kept.shape[-1])).reshape(shape)
        left = np.broadcast_to(moves.space.index(self.left_gradient(needed))[None, :], shape)
        final = np.broadcast_to(moves.space.index(self.optimizer(states))[:, None], shape)
        illegal = at < 0
        at = np.where(illegal, 0, at)
        per_microbatch = np.where(illegal, np.inf, moves.forward_ns(left, at))
        per_step = np.where(illegal, np.inf, moves.forward_ns(at, final))
        return per_microbatch, per_step

    def read_ns(self, states: IntArray, needed: IntArray, gathers: int) -> FloatArray:
        """(states, needed): exposed time per step of serving one reader.

        gathers: how often the value is gathered in one microbatch (again for the backward pass).
        """
        exposed = self.calibration.exposed
        count = self.microbatches
        gather = self.gather_ns(states, needed) * (gathers * count * exposed.parameter)
        per_microbatch, per_step = self.reduce_ns(states, needed)
        total = gather + (per_microbatch * count + per_step) * exposed.gradient
        return np.where(self.forbidden(states, needed), np.inf, total)

    def forbidden(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """(states, needed): what the request does not allow."""
        return self.at_rest.forbidden(
            states,
            needed,
            self.space.axis_sizes,
            slots=self.space.slots,
            size_bytes=self.space.bytes,
        )

    def rest_ns(self, states: IntArray) -> FloatArray:
        """Exposed time per step that no reader decides: the update and spreading its result."""
        return self.update_ns(states) + self.spread_ns(states) * self.calibration.exposed.parameter
