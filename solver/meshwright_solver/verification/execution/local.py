"""Ops on one device: whole tensors that hold its shards, and those that the op's own steps bring.

A whole tensor is zero where the device holds nothing. Labels have the ignored value there. Of the
devices that sum, the first adds the bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from meshwright.schema import Axis, Dim, Layout, SubDim
from meshwright.schema.regions import region
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.verification.execution.kernels import KernelCall
from meshwright_solver.verification.execution.op_collectives import Direction, OwnSteps
from meshwright_solver.verification.execution.reference_run import call_of
from meshwright_solver.verification.execution.sequence_order import LoadedOrder
from meshwright_solver.verification.execution.shards import (
    Array,
    Shards,
    from_parts,
    parts_shape,
    put,
    to_parts,
    window,
)
from meshwright_solver.verification.execution.stage_lookup import StageLookup
from meshwright_solver.verification.execution.views import Views


class ShardedOp:
    """One op of a plan on all devices.

    needed: the shards of its inputs, in the layouts that it needs. sources: whole values of free
    inputs. held: layout and shards of every value.
    """

    def __init__(
        self,
        planned: StageLookup,
        position: int,
        *,
        views: Views,
        order: LoadedOrder,
        needed: Mapping[int, Shards],
        sources: Mapping[str, Array],
        held: Mapping[str, tuple[Any, Shards]],
    ) -> None:
        self.planned = planned
        self.position = position
        self.op: OpInfo = planned.problem.ops[position]
        self.own_steps = OwnSteps(planned, position)
        self.views = views
        self.order = order
        self.needed = needed
        self.sources = sources
        self.held = held

    def call(self, rank: int, direction: Direction) -> KernelCall:
        """The kernel call of the op on one device."""
        held = [
            self._mask_source(k, rank)
            if self.planned.value(port.tensor).is_free
            else self._assemble_input(k, rank, direction)
            for k, port in enumerate(self.op.inputs)
        ]
        inputs = [
            self.order.by_place(self.op, port, whole)
            for port, whole in zip(self.op.inputs, held, strict=True)
        ]
        return call_of(self.planned.problem, self.op, inputs, self._denominator())

    def gradient_part(self, k: int, gradient: Array | None, rank: int) -> Array:
        """The part of an input's gradient that the device adds, in parts form of the root's layout.

        gradient: the whole gradient; None counts as zero.
        """
        port = self.op.inputs[k]
        layout = self.planned.required(self.position, k).gradient
        assert layout is not None
        shape = self.planned.problem.tensors[port.tensor].shape
        whole = gradient if gradient is not None else np.zeros(shape)
        if self._adds_bias(k) and not self._is_first(rank):
            whole = np.zeros_like(whole)
        value = self.planned.value(port.tensor)
        return to_parts(self.views.to_root(value, port.tensor, whole), layout)

    def _assemble_input(self, k: int, rank: int, direction: Direction) -> Array:
        port = self.op.inputs[k]
        layout = self.planned.required(self.position, k).value
        shards = self.needed[k]
        empty = self._ignored_label() if self._is_labels(k) else 0
        whole = np.full(parts_shape(layout), empty, dtype=shards[rank].dtype)
        for member in self.own_steps.input_sources(k, rank, direction):
            for other in self.own_steps.peers(member, "forward"):
                put(whole, shards[other], region(layout, self.planned.mesh, other))
        if self._adds_bias(k) and not self._is_first(rank):
            whole = np.zeros_like(whole)
        value = self.planned.value(port.tensor)
        return self.views.of_root(value, port.tensor, from_parts(whole, layout))

    def _mask_source(self, k: int, rank: int) -> Array:
        """A whole free input, without labels of other devices' rows and other devices' summands."""
        whole = self.free(k)
        if self._is_labels(k):
            return np.where(self._own_rows(rank), whole, self._ignored_label())
        summed = self._layout_of_sum(k)
        if summed is None:
            return whole
        held = np.zeros(parts_shape(summed), dtype=np.bool_)
        held[window(region(summed, self.planned.mesh, rank))] = True
        return np.where(from_parts(held, summed), whole, np.zeros_like(whole))

    def _layout_of_sum(self, k: int) -> Layout | None:
        """The layout in which devices sum a free input; None where they sum none of it."""
        assert self.op.known is not None
        problem, mesh = self.planned.problem, self.planned.mesh
        port = self.op.inputs[k]
        info = problem.tensors[port.tensor]
        axes: dict[int, list[Axis]] = {}
        for axis, on in self.own_steps.parts_on.items():
            if on and self.op.parts[on[0]].factor in self.op.known.rule.parsed.summed:
                slot = port.slot_of.get(on[0])
                if slot is not None:
                    axes.setdefault(slot, []).append(axis)
        if not axes:
            return None
        sizes = tuple(axis.size for axis in mesh.axes)
        dims: list[list[SubDim]] = [[] for _ in info.shape]
        for place, slot_info in enumerate(info.slots):
            axes_of_slot = tuple(axes.get(place, ()))
            span = problem.uneven.span((port.tensor, place), sizes) if axes_of_slot else None
            dims[slot_info.dim].append(SubDim(size=slot_info.size, axes=axes_of_slot, span=span))
        return Layout(
            dims=tuple(
                Dim(parts=tuple(parts) or (SubDim(size=1),), segments=info.segments.get(d, ()))
                for d, parts in enumerate(dims)
            )
        )

    def _is_labels(self, k: int) -> bool:
        return k == 1 and self.op.op.kind == "cross_entropy"

    def _ignored_label(self) -> int:
        return int(self.op.op.attrs.get("ignore_index", -100))

    def _own_rows(self, rank: int) -> Any:
        """A mask of the rows of the logits that a device and its peers hold.

        A device may hold no class of its rows itself.
        """
        port = self.op.inputs[0]
        layout = self.planned.required(self.position, 0).value
        held = np.zeros(parts_shape(layout))
        for other in self.own_steps.peers(rank, "forward"):
            held[window(region(layout, self.planned.mesh, other))] = 1.0
        value = self.planned.value(port.tensor)
        return np.any(self.views.of_root(value, port.tensor, from_parts(held, layout)), axis=-1)

    def _denominator(self) -> float | None:
        attrs = self.op.op.attrs
        if self.op.op.kind != "cross_entropy" or attrs.get("reduction", "mean") != "mean":
            return None
        labels = self.planned.value(self.op.inputs[1].tensor)
        whole = (
            self.free(1) if labels.is_free else self._whole_value(labels, self.op.inputs[1].tensor)
        )
        return float((whole != self._ignored_label()).sum())

    def _whole_value(self, value: ProblemValue, tensor: str) -> Array:
        layout, shards = self.held[value.root]
        whole = np.zeros(parts_shape(layout), dtype=shards[0].dtype)
        for rank in range(self.planned.mesh.device_count):
            put(whole, shards[rank], region(layout, self.planned.mesh, rank))
        return self.views.of_root(value, tensor, from_parts(whole, layout))

    def free(self, k: int) -> Array:
        """A whole free input, in the order in which the op reads it."""
        port = self.op.inputs[k]
        value = self.planned.value(port.tensor)
        whole = self.views.of_root(value, port.tensor, self.sources[value.root])
        return self.order.read(self.op, port, whole)

    def _adds_bias(self, k: int) -> bool:
        return self.op.op.kind in ("linear", "conv", "conv_transpose") and k == 2

    def _is_first(self, rank: int) -> bool:
        """Whether a device adds the bias: it is the first on all axes that are summed over."""
        assert self.op.known is not None
        summed = self.op.known.rule.parsed.summed
        at = self.planned.mesh.coordinates(rank)
        return not any(
            at[axis]
            for axis, on in self.own_steps.parts_on.items()
            if on and self.op.parts[on[0]].factor in summed
        )
