"""Parameter models: times of parameter gathers, gradient reductions and optimizer updates.

    per microbatch   value at rest -> as the reader needs it, forward, and again backward
                     gradient as the reader leaves it -> accumulated
    per step         accumulated gradient -> optimizer layout;  optimizer layout -> value at rest
    optimizer time   (2 * state bytes + 2 * master copy + gradient + value) / memory bandwidth

The lookup of a table counts the times of its rows: on hosts (`lookup_times`), and of sparse
gradients (`row_gradients`).

On axes where nothing is sharded, gradients are accumulated as partial sums and reduced once a step.

Frameworks send parameters and gradients in buckets (`meshwright_solver.strategies.fusion`). A
tensor pays its share of a collective's latency and the bandwidth of all its bytes. A value of less
than OPTIMIZER_SHARD_BYTES is in no bucket: it rests whole unless its reader needs a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import DTYPE_BYTES, Calibration, Device, Exposed
from meshwright_costmodel.collectives import Interconnect, collective_cost
from meshwright_costmodel.curves import rates_of
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.axis_groups import axis_groups
from meshwright_solver.layouts.path_order import in_path_order
from meshwright_solver.layouts.redistribution import LayoutStep, Path, Placed, Redistributions
from meshwright_solver.layouts.redistribution_cache import redistributions_of
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
    """Times of a parameter's states; parameters of equal content share one model.

    exposed: the shares of traffic that a search counts. gradients: number of trained parameters of
    the whole graph. copies: interleaved microbatches in each of `microbatches`.
    """

    device: Device
    calibration: Calibration
    exposed: Exposed
    interconnect: Interconnect
    axis_levels: tuple[int, ...]
    gradients: int = 1
    copies: int = 1

    @cached_property
    def value_moves(self) -> Redistributions:
        size_bytes = round(self.space.bytes * self.space.sent_share)
        return self._moves(size_bytes, self.space.bytes < OPTIMIZER_SHARD_BYTES)

    @cached_property
    def gradient_moves(self) -> Redistributions:
        size_bytes = self.elements * DTYPE_BYTES[self.setup.gradient_dtype]
        # a stated fusion of all-reduces binds: no reduce-scatter and all-gather instead
        refused = ("all_gather",) if self.setup.fusion.binds_all_reduce else ()
        return self._moves(size_bytes, False, refused=refused)

    def _moves(
        self, size_bytes: int, is_alone: bool, *, refused: tuple[str, ...] = ()
    ) -> Redistributions:
        space = replace(self.space.value_alone, bytes=size_bytes)
        shares = latency_shares(
            self.setup.fusion, size_bytes, is_alone=is_alone, gradients=self.gradients
        )
        fused = replace(self.interconnect, fused=shares, refused=refused)
        return redistributions_of(space, self.axis_levels, fused, order_is_free=True)

    def update_ns(self, states: IntArray) -> FloatArray:
        """Optimizer time on the device in one step, without rows of tables, ns."""
        if not self.trained:
            return np.zeros(len(states))
        here = np.isin(self.place(states), (DEVICE, DEALT, DEALT_TOO))
        return np.where(here, self._update_ns(self.updated_elements(states)), 0.0)

    def _update_ns(self, elements: FloatArray) -> FloatArray:
        rate = self.device.memory_bytes_per_s * rates_of(self.calibration, self.device).memory
        return elements * self.element_bytes.updated / rate * NS_PER_S

    def row_gradients(self, needed: IntArray, looked_up: FloatArray) -> RowGradients:
        """Sparse gradients of lookups that need the table in the states `needed`.

        looked_up: elements of the rows that one microbatch looks up on a device.
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
        """(states, lookups): optimizer time of the rows of a sparse gradient on the device, ns."""
        touched = np.minimum(self.updated_elements(states)[:, None], rows.elements[None, :])
        return np.where(self.is_sparse(states)[:, None], self._update_ns(touched), 0.0)

    def host_times(self, states: IntArray) -> HostTimes:
        """Host times of one step, without rows of tables."""
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
        """(states, lookups): host times of one step where the table is offloaded.

        looked_up: elements of the rows that one microbatch looks up on a device.
        """
        elements = self.updated_elements(states)[:, None]
        is_there = (self.place(states) == TABLE)[:, None]
        if self.host is None:
            nothing = np.zeros((len(states), len(looked_up)))
            return HostTimes(nothing, nothing, nothing)
        times = lookup_times(
            self.host,
            self.element_bytes,
            elements,
            np.broadcast_to(looked_up, (len(states), len(looked_up))),
            microbatches=self.microbatches,
            bucket_bytes=BUCKET_BYTES,
            trained=self.trained,
        )
        parts = (times.work, times.up, times.down)
        return HostTimes(*(np.where(is_there, ns, 0.0) for ns in parts))

    def spread_ns(self, states: IntArray) -> FloatArray:
        """Time per step from the optimizer's layout to the value's, of the updated parameter."""
        if not self.trained:
            return np.zeros(len(states))
        moves, lies = self.value_moves, self.optimizer(states)
        ns = moves.forward_ns(moves.space.index(lies), moves.space.index(self.value(states)))
        dealt = self.dealt_axes(states)
        return ns + self._rooted_ns(moves, dealt, lies) if dealt.any() else ns

    def spread_path(self, state: IntArray) -> Path:
        """The steps of `spread_ns` for one state."""
        moves, lies = self.value_moves, self.optimizer(state)
        path = _path(moves, lies, self.value(state))
        dealt = self.dealt_axes(state)
        return (self._rooted_step(moves, "broadcast", dealt, lies), *path) if dealt.any() else path

    def reduction_paths(self, state: IntArray, needed: IntArray) -> tuple[Path, Path]:
        """Steps of a gradient in every microbatch, and once a step, of one state and one reader."""
        moves, accumulated = self.gradient_moves, self.accumulated(state, needed)
        final = self._collective_result(state, accumulated)[0]
        often = _path(moves, self.left_gradient(needed), accumulated[0])
        once = _path(moves, accumulated[0], final)
        summed = self.dealt_axes(state) & (final == self.space.slots + 1)
        if not summed.any():
            return often, once
        reduced = self._rooted_step(moves, "reduce", summed, self.optimizer(state))
        if self.deals_gradient(state)[0]:
            return (*often, reduced), once
        return often, (*once, reduced)

    def is_reduced_often(self, state: IntArray, needed: IntArray) -> bool:
        """Whether every microbatch reduces the gradient before accumulation."""
        return bool(self.reduction_paths(state, needed)[0])

    def _collective_result(self, states: IntArray, accumulated: IntArray) -> IntArray:
        """(states, needed, axes): a gradient's layout after its collectives.

        Axes that are still partial are reduced to the owner.
        """
        dealt = self.dealt_axes(states)[:, None, :] & (accumulated == self.space.slots + 1)
        return np.where(dealt, accumulated, self.optimizer(states)[:, None, :])

    def _rooted_step(
        self, moves: Redistributions, kind: RootedKind, axes: NDArray[np.bool_], lies: IntArray
    ) -> LayoutStep:
        """Reduction to the owner, or broadcast from it; lies: the layout on the other axes."""
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
        """(states,): time of a broadcast over `axes`; a reduction to one device takes the same."""
        payload, ns = moves.space.local_bytes(lies), np.zeros(len(axes))
        for group, among in axis_groups(axes):
            extents = moves.interconnect.extents_of(
                (self.axis_levels[a], self.space.axis_sizes[a]) for a in group
            )
            cost = collective_cost("broadcast", extents, moves.interconnect)
            ns[among] = cost.ns(payload[among])
        return ns

    def read_value(self, needed: IntArray) -> IntArray:
        """The value's layout for the state that a reader needs: V becomes R."""
        return np.minimum(needed, self.space.slots)

    def left_gradient(self, needed: IntArray) -> IntArray:
        """The gradient's layout as the reader produces it: V becomes P."""
        n = self.space.slots
        return np.where(needed == n + 2, n + 1, needed)

    def accumulated(self, states: IntArray, needed: IntArray) -> IntArray:
        """(states, needed, axes): the layout in which gradients of microbatches are summed."""
        gradient = self.gradient(states)[:, None, :]
        reader_gradient = self.left_gradient(needed)[None, :, :]
        return np.where(gradient < self.space.slots, gradient, reader_gradient)

    def gather_ns(self, states: IntArray, needed: IntArray) -> FloatArray:
        """(states, needed): time of one gather for a reader; inf where the value rests coarser."""
        moves = self.value_moves
        rows = moves.space.index(self.value(states))
        columns = moves.space.index(self.read_value(needed))
        split = needed[None, :, :] < self.space.slots
        coarser = (split & (self.value(states)[:, None, :] != needed[None, :, :])).any(axis=2)
        return np.where(coarser, np.inf, moves.forward_ns(rows[:, None], columns[None, :]))

    def order(self, state: IntArray, needed: IntArray) -> tuple[int, ...]:
        """Ranks of the axes on a slot: the reader's, the value's, the gradient's, then the rest.

        Gathers and reductions thus use the last axes of a slot, whose chunks are adjacent. Of equal
        axes, those with replicated gradients come first: they are sliced before the others are
        reduced. Where a path gathers or scatters axes of a slot one after the other, those that it
        leaves alone come before those that it moves.
        """
        n = self.space.slots
        chain = (needed, self.value(state), self.gradient(state))
        ranks = tuple(
            2 * next((rank for rank, codes in enumerate(chain) if codes[a] < n), len(chain))
            + int(needed[a] != n)
            for a in range(len(state))
        )
        return in_path_order(ranks, self._paths(state[None], needed[None]), n)

    def _paths(self, state: IntArray, needed: IntArray) -> tuple[Path, ...]:
        """The gathers, reductions and spread of one state for one reader."""
        gathers = _path(self.value_moves, self.value(state), self.read_value(needed))
        if not self.trained:
            return (gathers,)
        return gathers, *self.reduction_paths(state, needed), self.spread_path(state)

    def reduce_ns(self, states: IntArray, needed: IntArray) -> tuple[FloatArray, FloatArray]:
        """(states, needed): reduction times per microbatch and per step; 0 for sparse gradients."""
        shape = (len(states), len(needed))
        if not self.trained:
            return np.zeros(shape), np.zeros(shape)
        moves = self.gradient_moves
        accumulated = self.accumulated(states, needed)
        at = moves.space.index(accumulated.reshape(-1, accumulated.shape[-1])).reshape(shape)
        source = np.broadcast_to(moves.space.index(self.left_gradient(needed))[None, :], shape)
        ends = self._collective_result(states, accumulated)
        final = moves.space.index(ends.reshape(-1, ends.shape[-1])).reshape(shape)
        illegal = at < 0
        at = np.where(illegal, 0, at)
        per_microbatch = np.where(illegal, np.inf, moves.forward_ns(source, at))
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
        """(states, needed): exposed time per step of the gathers and reductions of one reader.

        gathers: number of gathers in one microbatch, those of the backward pass included.
        """
        exposed = self.exposed
        count = self.microbatches
        gather = self.gather_ns(states, needed) * (gathers * count * exposed.parameter)
        per_microbatch, per_step = self.reduce_ns(states, needed)
        reduction = per_microbatch * (count * exposed.gradient) + per_step * exposed.gradient_once
        total = gather + reduction
        return np.where(self.forbidden(states, needed), np.inf, total)

    def moves_over_limit(
        self, states: IntArray, needed: IntArray, limit_bytes: float
    ) -> NDArray[np.bool_]:
        """(states, needed): whether a gathered value, or a gradient that every microbatch reduces,
        has more than `limit_bytes` on a device."""
        read, reader_gradient = self.read_value(needed), self.left_gradient(needed)
        gathered = (self.value(states)[:, None] != read).any(axis=2)
        exceeds: NDArray[np.bool_] = gathered & (self.space.local_bytes(read) > limit_bytes)
        if not self.trained:
            return exceeds
        reduced = (self.accumulated(states, needed) != reader_gradient).any(axis=2)
        reduced |= self.deals_gradient(states)[:, None]
        exceeds |= reduced & (self.gradient_moves.space.local_bytes(reader_gradient) > limit_bytes)
        return exceeds

    def forbidden(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """(states, needed): whether the request, the host or a sparse gradient forbids a pair."""
        request_forbids = self.request_forbids(states, needed)
        return request_forbids | self.not_on_host(states, needed) | self.not_in_rows(states, needed)

    def not_in_rows(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """(states, needed): whether a sparse table is in another layout than its reader needs."""
        lies_so = (self.plain(states)[:, None, :] == self.read_value(needed)[None]).all(axis=2)
        bad: NDArray[np.bool_] = self.is_sparse(states)[:, None] & ~lies_so
        return bad

    def request_forbids(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """(states, needed): whether the request forbids a pair."""
        return self.at_rest.forbidden(
            self.plain(states),
            needed,
            self.space.axis_sizes,
            slots=self.space.slots,
            size_bytes=self.space.bytes,
            dealt=self.dealt_axes(states),
        )

    def not_on_host(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        """(states, needed): whether a host cannot hold the state.

        A gradient on a host has to be complete before accumulation; a table has to be in its
        reader's layout.
        """
        place, plain = self.place(states)[:, None], self.plain(states)[:, None, :]
        lies_so = ((plain == needed[None]) & (plain <= self.space.slots)).all(axis=2)
        bad: NDArray[np.bool_] = (place == TABLE) & ~lies_so
        if (place == GRADIENT).any():
            _, per_step = self.reduce_ns(states, needed)
            bad |= (place == GRADIENT) & (per_step > 0)
        if self.at_rest.finest_on_host:
            bad |= self._is_coarser_on_host(states, needed, bad)
        return bad

    def _is_coarser_on_host(
        self, states: IntArray, needed: IntArray, bad: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """(states, needed): whether another state with the same place needs less host memory."""
        place, held = self.place(states), self.host_bytes(states)
        legal = np.isfinite(self.gather_ns(states, needed)) & ~bad
        coarser = np.zeros(bad.shape, dtype=np.bool_)
        for host_place in (OPTIMIZER, GRADIENT, TABLE):
            here = np.where(legal & (place == host_place)[:, None], held[:, None], np.inf)
            coarser |= (place == host_place)[:, None] & (held[:, None] > here.min(axis=0))
        return coarser

    def rest_ns(self, states: IntArray) -> FloatArray:
        """(states,): exposed time per step of the update and the spread of its result."""
        exposed = self.exposed
        total = self.update_ns(states) + self.spread_ns(states) * exposed.parameter_once
        if not self.is_any_hosted(states):
            return total
        return total + self.host_times(states).exposed(exposed)


def _path(moves: Redistributions, source: IntArray, target: IntArray) -> Path:
    a, b = (int(moves.space.index(states)[0]) for states in (source, target))
    return moves.forward_path(a, b)
