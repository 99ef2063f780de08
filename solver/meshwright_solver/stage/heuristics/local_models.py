"""Models of one axis on the part of the graph that outer axes leave to a group of devices.

Once every op has its code on the outer axes, a group of devices that these axes do not distinguish
holds a part of every op and of every value. The models of the next axis see only this part: the
same op, with smaller sizes and fewer bytes. Recursive programming solves it separately.

A value's part is its part at rest. A parameter's is the part that its reader needs; its finer
division into value, gradient and optimizer state at rest is stored beside it (`OuterDivision`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh
from meshwright_costmodel.expert_imbalance import ExpertLoad
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel, PortModel
from meshwright_solver.strategies.op_models import OpModels
from meshwright_solver.strategies.op_template import OpSketch
from meshwright_solver.strategies.parameter_model import ParameterModel


@dataclass(frozen=True, slots=True)
class OuterDivision:
    """The division of a parameter at rest by outer axes, relative to the part its reader needs."""

    value: int = 1
    gradient: int = 1
    optimizer: int = 1


@dataclass(slots=True)
class Outer:
    """The decisions on the outer axes.

    parts: position of an op -> the cut of each of its parts. slots: root of a value -> the cut of
    each of its shardable slots. divisions: root of a parameter -> its division at rest.
    """

    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    slots: dict[str, tuple[int, ...]] = field(default_factory=dict)
    divisions: dict[str, OuterDivision] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalParameterModel(ParameterModel):
    """A parameter as its reader needs it, with its division by outer axes at rest."""

    division: OuterDivision = OuterDivision()

    def held_bytes(self, states: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        # `updated_elements` counts the division of the optimizer state already
        value, gradient, optimizer = ParameterModel.held_bytes(self, states)
        division = self.division
        return value / division.value, gradient / division.gradient, optimizer

    def updated_elements(self, states: IntArray) -> FloatArray:
        return ParameterModel.updated_elements(self, states) / self.division.optimizer

    def request_forbids(self, states: IntArray, needed: IntArray) -> NDArray[np.bool_]:
        return self.at_rest.forbidden(
            self.plain(states),
            needed,
            self.space.axis_sizes,
            slots=self.space.slots,
            size_bytes=self.space.bytes,
            sharded_ways=self.division.optimizer,
            dealt=self.dealt_axes(states),
        )


@dataclass(slots=True)
class _LocalOpModels(OpModels):
    outer: Outer = field(default_factory=Outer)
    _local: dict[str, StateSpace] = field(default_factory=dict)
    _parts: dict[tuple[int, tuple[int, ...]], StateSpace] = field(default_factory=dict)

    def space(self, root: str) -> StateSpace:
        known = self._local.get(root)
        if known is None:
            whole = OpModels.space(self, root)
            ways = self.outer.slots.get(root)
            known = self._local[root] = whole if ways is None else self._part(whole, ways)
        return known

    def _part(self, whole: StateSpace, ways: tuple[int, ...]) -> StateSpace:
        key = (id(whole), ways)
        if key not in self._parts:
            space = _space_of_part(whole, ways)
            self._parts[key] = self._spaces.setdefault(space, space)
        return self._parts[key]

    def _cut(self, position: int) -> Hashable:
        op, value_of = self.problem.ops[position], self.values.value_of
        roots = [value_of[port.tensor].root for port in (*op.inputs, *op.outputs)]
        return self.outer.parts.get(position), *map(self.outer.slots.get, roots)

    def _make(
        self,
        position: int,
        sketch: OpSketch,
        spaces: Sequence[StateSpace | None],
        spans: tuple[int, ...],
    ) -> OpModel:
        whole = OpModels._make(self, position, sketch, spaces, spans)
        ways = self.outer.parts.get(position)
        return whole if ways is None else _op_of_part(whole, ways)


class LocalModels(Models):
    """Models of one more axis; their mesh is that axis alone."""

    __slots__ = ("outer",)

    def __init__(self, whole: Models, mesh: Mesh, outer: Outer) -> None:
        super().__init__(
            whole.problem,
            whole.values,
            mesh,
            whole.sketches,
            whole.followers,
            whole.at_rest,
            whole.deadline,
        )
        self.outer = outer
        self.ops = _LocalOpModels(
            self.problem,
            self.values,
            self.ops.axis_sizes,
            self.ops.axis_levels,
            whole.sketches,
            outer=outer,
        )

    def _parameter(self, value: ProblemValue) -> ParameterModel:
        whole = Models._parameter(self, value)
        division = self.outer.divisions.get(value.root)
        if division is None:
            return whole
        return self.shared(
            ("local parameter", whole, division),
            lambda: LocalParameterModel(
                space=whole.space,
                dtype=whole.dtype,
                setup=whole.setup,
                microbatches=whole.microbatches,
                at_rest=whole.at_rest,
                host=whole.host,
                is_table=whole.is_table,
                rows=whole.rows,
                device=whole.device,
                calibration=whole.calibration,
                exposed=whole.exposed,
                interconnect=whole.interconnect,
                axis_levels=whole.axis_levels,
                gradients=whole.gradients,
                copies=whole.copies,
                division=division,
            ),
        )


def _space_of_part(whole: StateSpace, ways: tuple[int, ...]) -> StateSpace:
    load, share = _load_of_part(whole.load, ways)
    return replace(
        whole,
        slot_sizes=_cut(whole.slot_sizes, ways),
        bytes=max(1, round(whole.bytes * share) // prod(ways)),
        load=load,
        spans=_cut(whole.spans, ways),
        counts=tuple(n if way == 1 else 0 for n, way in zip(whole.counts, ways, strict=False)),
    )


def _op_of_part(whole: OpModel, ways: tuple[int, ...]) -> OpModel:
    load, share = _load_of_part(whole.load, ways)
    return replace(
        whole,
        flops=whole.flops * share / prod(ways),
        load=load,
        sizes=_cut(whole.sizes, ways),
        spans=_cut(whole.spans, ways),
        halo_elements=tuple(
            elements * way // prod(ways)
            for elements, way in zip(whole.halo_elements, ways, strict=True)
        ),
        inputs=tuple(_port_of_part(port, ways, share) for port in whole.inputs),
        outputs=tuple(_port_of_part(port, ways, share) for port in whole.outputs),
    )


def _load_of_part(
    whole: ExpertLoad | None, ways: tuple[int, ...]
) -> tuple[ExpertLoad | None, float]:
    """The remaining load, and the share of the busiest part relative to the mean."""
    if whole is None:
        return None, 1.0
    cut = prod(ways[place] for place in whole.on)
    return replace(whole, outer=whole.outer * cut), float(whole.of_ways(np.array([cut]))[0])


def _port_of_part(whole: PortModel, ways: tuple[int, ...], share: float) -> PortModel:
    cut = prod(ways[part] for part, _ in whole.slot_of)
    held = round(whole.bytes * share) if whole.has_load else whole.bytes
    return whole if cut == 1 else replace(whole, bytes=max(1, held // cut))


def _cut(sizes: tuple[int, ...], ways: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-(-size // way) for size, way in zip(sizes, ways, strict=False))
