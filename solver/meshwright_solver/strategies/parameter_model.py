"""What parameters at rest cost: gathers, reductions of their gradients, the optimizer.

    per microbatch   value at rest -> as the reader needs it, forward, and again backward
                     gradient as the reader leaves it -> accumulated
    per step         accumulated gradient -> optimizer layout;  optimizer layout -> value at rest
    optimizer time   (2 * state bytes + 2 * master copy + gradient + value) / memory bandwidth

What rows of tables cost their lookup says: on hosts (`lookup_times`), and of sparse gradients
(`row_gradients`).

Gradients of axes on which nothing is sharded are accumulated as partial sums and reduced once.

Frameworks send parameters and gradients in buckets (`meshwright_solver.strategies.fusion`): one
pays its share of a collective's latency, and the bandwidth of all its bytes. The value of a
parameter of less than OPTIMIZER_SHARD_BYTES is in none by itself: it stays whole unless its reader
wants a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import DTYPE_BYTES, Calibration, Device
from meshwright_costmodel.collectives import Interconnect, collective_cost
from meshwright_costmodel.curves import rates_of
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.axis_groups import axis_groups
from meshwright_solver.layouts.redistribution import LayoutStep, Path, Placed, Redistributions
from meshwright_solver.strategies.fusion import BUCKET_BYTES, latency_shares
from meshwright_solver.strategies.offload import (
    DEALT,
    DEALT_TOO,
    DEVICE,
    GRADIENT,
    OPTIMIZER,
    TABLE,
    HostTimes,
    lookup_times,
    update_times,
)
from meshwright_solver.strategies.parameter_states import OPTIMIZER_SHARD_BYTES, ParameterStates
from meshwright_solver.strategies.sparse_gradients import RowGradients, row_gradients

__all__ = ["BUCKET_BYTES", "OPTIMIZER_SHARD_BYTES", "ParameterModel"]

NS_PER_S = 1e9
RootedKind = Literal["reduce", "broadcast"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterModel(ParameterStates):
    """The states of a parameter and what they cost; one for all parameters of equal content.

    gradients: how many parameters the whole graph trains. copies: microbatches that take turns, of
    each of `microbatches`.
    """

    device: Device
    calibration: Calibration
    interconnect: Interconnect
    axis_levels: tuple[int, ...]
    gradients: int = 1
    copies: int = 1

    @cached_property
    def value_moves(self) -> Redistributions:
        return self._moves(self.space.bytes, self.space.bytes < OPTIMIZER_SHARD_BYTES)

    @cached_property
    def gradient_moves(self) -> Redistributions:
        size_bytes = self.elements * DTYPE_BYTES[self.setup.gradient_dtype]
        return self._moves(size_bytes, False)

    def _moves(self, size_bytes: int, is_alone: bool) -> Redistributions:
        space = replace(self.space, bytes=size_bytes, has_gradient=False)
        shares = latency_shares(
            self.setup.fusion, size_bytes, is_alone=is_alone, gradients=self.gradients
        )
        fused = replace(self.interconnect, fused=shares)
        return Redistributions(space, self.axis_levels, fused, order_is_free=True)

    def update_ns(self, states: IntArray) -> FloatArray:
        """The optimizer's own time on the device in one step, but for rows of tables."""
        if not self.trained:
            return np.zeros(len(states))
        here = np.isin(self.place(states), (DEVICE, DEALT, DEALT_TOO))
        return np.where(here, self._update_ns(self.updated_elements(states)), 0.0)

    def _update_ns(self, elements: FloatArray) -> FloatArray:
        rate = self.device.memory_bytes_per_s * rates_of(self.calibration, self.device).memory
        return elements * self.element_bytes.updated / rate * NS_PER_S

    def row_gradients(self, needed: IntArray, looked_up: FloatArray) -> RowGradients:
        """Of lookups that need the table in these states, where its gradient is sparse.

        looked_up: elements of the rows that one microbatch asks a device for.
        """
        assert self.rows is not None
        sizes, slots = np.array(self.space.axis_sizes, dtype=np.float64), self.space.slots
        cuts = (needed < slots) & np.isin(needed, [*self.rows.slots], invert=True)
        return row_gradients(
            looked_up,
            self.rows.elements / np.where(cuts, sizes, 1.0).prod(axis=1),
            needed == slots + 2,
            self.element_bytes,
            axis_sizes=self.space.axis_sizes,
            axis_levels=self.axis_levels,
            interconnect=self.interconnect,
            microbatches=self.microbatches * self.copies,
        )

    def row_update_ns(self, states: IntArray, rows: RowGradients) -> FloatArray:
        """(states, lookups): the optimizer's time on the device, of rows alone."""
        touched = np.minimum(self.updated_elements(states)[:, None], rows.elements[None, :])
        return np.where(self.is_sparse(states)[:, None], self._update_ns(touched), 0.0)

    def host_times(self, states: IntArray) -> HostTimes:
        """What hosts do in one step, but for rows of tables."""
        if self.host is None or not self.trained:
            nothing = np.zeros(len(states))
            return HostTimes(nothing, nothing, nothing)
        return update_times(
            self.host,
            self.element_bytes,
            self.updated_elements(states),
            self.place(states),
            self.microbatches,
            BUCKET_BYTES,
        )

    def lookup_times(self, states: IntArray, looked_up: FloatArray) -> HostTimes:
        """(states, lookups): what hosts do in one step where the table lies there.

        looked_up: elements of the rows that one microbatch asks a device for.
        """
        elements = self.updated_elements(states)[:, None]
        is_there = (self.place(states) == TABLE)[:, None]
        if self.host is None:
            nothing = np.zeros((len(states), len(looked_up)))
            return HostTimes(nothing, nothing, nothing)
        found = lookup_times(
            self.host,
            self.element_bytes,
            elements,
            np.broadcast_to(looked_up, (len(states), len(looked_up))),
            microbatches=self.microbatches,
            bucket_bytes=BUCKET_BYTES,
            trained=self.trained,
        )
        parts = (found.work, found.up, found.down)
        return HostTimes(*(np.where(is_there, own, 0.0) for own in parts))

    def spread_ns(self, states: IntArray) -> FloatArray:
        """Per step: the updated parameter from the optimizer's layout to the value's."""
        if not self.trained:
            return np.zeros(len(states))
        moves, lies = self.value_moves, self.optimizer(states)
        found = moves.forward_ns(moves.space.index(lies), moves.space.index(self.value(states)))
        dealt = self.dealt_axes(states)
        return found + self._rooted_ns(moves, dealt, lies) if dealt.any() else found

    def spread_path(self, state: IntArray) -> Path:
        """The same of one state, as steps."""
        moves, lies = self.value_moves, self.optimizer(state)
        path = _path(moves, lies, self.value(state))
        dealt = self.dealt_axes(state)
        return (self._rooted(moves, "broadcast", dealt, lies), *path) if dealt.any() else path

    def reduction_paths(self, state: IntArray, needed: IntArray) -> tuple[Path, Path]:
        """A gradient in every microbatch and once a step, of one state and one reader."""
        moves, kept = self.gradient_moves, self.accumulated(state, needed)
        final = self._reduced(state, kept)[0]
        often = _path(moves, self.left_gradient(needed), kept[0])
        once = _path(moves, kept[0], final)
        summed = self.dealt_axes(state) & (final == self.space.slots + 1)
        if not summed.any():
            return often, once
        reduced = self._rooted(moves, "reduce", summed, self.optimizer(state))
        if self.deals_gradient(state)[0]:
            return (*often, reduced), once
        return often, (*once, reduced)

    def is_reduced_often(self, state: IntArray, needed: IntArray) -> bool:
        """Whether a gradient is in every microbatch, before it is accumulated."""
        return bool(self.reduction_paths(state, needed)[0])

    def _reduced(self, states: IntArray, kept: IntArray) -> IntArray:
        """(states, needed, axes): where collectives leave a gradient; what is still partial then is
        added up on one device."""
        dealt = self.dealt_axes(states)[:, None, :] & (kept == self.space.slots + 1)
        return np.where(dealt, kept, self.optimizer(states)[:, None, :])

    def _rooted(
        self, moves: Redistributions, kind: RootedKind, axes: NDArray[np.bool_], lies: IntArray
    ) -> LayoutStep:
        """A parameter to its owner, or from there; lies: as it does along the other axes."""
        summed = np.where(axes, self.space.slots + 1, lies)[0].tolist()
        without = tuple([0] * len(summed))
        before = Placed(tuple(summed), without)
        after = before if kind == "reduce" else Placed(tuple(lies[0].tolist()), without)
        payload = float(moves.space.local_bytes(lies)[0])
        ns = float(self._rooted_ns(moves, axes, lies)[0])
        return LayoutStep(kind, tuple(np.flatnonzero(axes[0]).tolist()), before, after, payload, ns)

    def _rooted_ns(
        self, moves: Redistributions, axes: NDArray[np.bool_], lies: IntArray
    ) -> FloatArray:
        """A broadcast over some axes, row by row; a reduction to one device is its mirror image."""
        payload, found = moves.space.local_bytes(lies), np.zeros(len(axes))
        for own, among in axis_groups(axes):
            extents = moves.interconnect.extents_of(
                (self.axis_levels[a], self.space.axis_sizes[a]) for a in own
            )
            cost = collective_cost("broadcast", extents, moves.interconnect)
            found[among] = cost.ns(payload[among])
        return found

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
        """(states, needed): gradient to its accumulator, then per step to the optimizer; sparse
        ones go other ways."""
        shape = (len(states), len(needed))
        if not self.trained:
            return np.zeros(shape), np.zeros(shape)
        moves = self.gradient_moves
        kept = self.accumulated(states, needed)
        at = moves.space.index(kept.reshape(-1, kept.shape[-1])).reshape(shape)
        left = np.broadcast_to(moves.space.index(self.left_gradient(needed))[None, :], shape)
        ends = self._reduced(states, kept)
        final = moves.space.index(ends.reshape(-1, ends.shape[-1])).reshape(shape)
        illegal = at < 0
        at = np.where(illegal, 0, at)
        per_microbatch = np.where(illegal, np.inf, moves.forward_ns(left, at))
        per_step = np.where(illegal, np.inf, moves.forward_ns(at, final))
        summed = self.dealt_axes(states)[:, None, :] & (ends == self.space.slots + 1)
        if summed.any():
            lies = np.broadcast_to(self.optimizer(states)[:, None, :], summed.shape)
            axes = summed.shape[-1]
            rooted = self._rooted_ns(moves, summed.reshape(-1, axes), lies.reshape(-1, axes))
            often = self.deals_gradient(states)[:, None]
            per_microbatch = per_microbatch + np.where(often, rooted.reshape(shape), 0.0)
            per_step = per_step + np.where(often, 0.0, rooted.reshape(shape))
        if self.rows is not None:
            is_sparse = self.is_sparse(states)[:, None]
            per_microbatch = np.where(is_sparse, 0.0, per_microbatch)
            per_step = np.where(is_sparse, 0.0, per_step)
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

    def moves_more(
        self, states: IntArray, needed: IntArray, limit_bytes: float
    ) -> NDArray[np.bool_]:
        """(states, needed): whether the value is gathered to more than so many bytes on a device,
        or a gradient of more is reduced in every microbatch."""
        read, left = self.read_value(needed), self.left_gradient(needed)
        gathered = (self.value(states)[:, None] != read).any(axis=2)
        found: NDArray[np.bool_] = gathered & (self.space.local_bytes(read) > limit_bytes)
        if not self.trained:
            return found
        reduced = (self.accumulated(states, needed) != left).any(axis=2)
        reduced |= self.deals_gradient(states)[:, None]
        found |= reduced & (self.gradient_moves.space.local_bytes(left) > limit_bytes)
        return found

    def forbidden(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """(states, needed): what the request does not allow, what cannot lie on hosts, and where
        no gradient can be sparse."""
        asked_out = self.asked_out(states, needed)
        return asked_out | self.not_on_host(states, needed) | self.not_in_rows(states, needed)

    def not_in_rows(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """A table with a sparse gradient lies as its reader needs the value."""
        lies_so = (self.plain(states)[:, None, :] == self.read_value(needed)[None]).all(axis=2)
        bad: NDArray[np.bool_] = self.is_sparse(states)[:, None] & ~lies_so
        return bad

    def asked_out(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """What the request does not allow."""
        return self.at_rest.forbidden(
            self.plain(states),
            needed,
            self.space.axis_sizes,
            slots=self.space.slots,
            size_bytes=self.space.bytes,
            dealt=self.dealt_axes(states),
        )

    def not_on_host(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """A gradient on a host is whole there; a table lies as its reader needs it."""
        place, plain = self.place(states)[:, None], self.plain(states)[:, None, :]
        lies_so = ((plain == needed[None]) & (plain <= self.space.slots)).all(axis=2)
        bad: NDArray[np.bool_] = (place == TABLE) & ~lies_so
        if (place == GRADIENT).any():
            _, per_step = self.reduce_ns(states, needed)
            bad |= (place == GRADIENT) & (per_step > 0)
        if self.at_rest.finest_on_host:
            bad |= self._not_finest(states, needed, bad)
        return bad

    def _not_finest(
        self, states: IntArray, needed: IntArray, bad: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """What takes more of a host than another state that keeps the same there."""
        place, held = self.place(states), self.host_bytes(states)
        legal = np.isfinite(self.gather_ns(states, needed)) & ~bad
        found = np.zeros(bad.shape, dtype=np.bool_)
        for own in (OPTIMIZER, GRADIENT, TABLE):
            here = np.where(legal & (place == own)[:, None], held[:, None], np.inf)
            found |= (place == own)[:, None] & (held[:, None] > here.min(axis=0))
        return found

    def rest_ns(self, states: IntArray) -> FloatArray:
        """Exposed time per step that no reader decides: the update and spreading its result."""
        exposed = self.calibration.exposed
        total = self.update_ns(states) + self.spread_ns(states) * exposed.parameter
        if not self.is_any_hosted(states):
            return total
        return total + self.host_times(states).exposed(exposed)


def _path(moves: Redistributions, source: IntArray, target: IntArray) -> Path:
    a, b = (int(moves.space.index(states)[0]) for states in (source, target))
    return moves.forward_path(a, b)
