"""All strategies of one op on one mesh: what each needs, makes and costs.

A strategy has one code per mesh axis. For an op with parts 0 .. n-1

    0 .. n-1   the axis lies on this part
    n          the axis lies on nothing: the op is repeated
    n + 1 + g  partial sums pass through the inputs of linear group g

An axis on a part makes the inputs and outputs that have the part S; an input without it V (its
gradient is partial) or R where it has no gradient; an output without it P. A reused part (`^`)
leaves such outputs R, since the op reduces its statistics itself.

    time = op_ns(flops / ways, bytes / ways) forward, the same backward with the gradients' share,
           + all-reduces of statistics + halo exchanges

with ways the product of the axis sizes on parts, less where these cut a part unevenly: the step
waits for the longest chunk. Parts are contiguous: of p parts along the rows of a causal mask the
last has (2 - 1/p) times its share, and that is what a step waits for.

Models of equal content are one object (`OpModels`), which is what lets the search solve repeated
blocks once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Extents, Interconnect, collective_cost
from costmodel.operators import op_ns
from meshwright.schema import Calibration, Device, OpClass
from solver.problem import OpInfo, Problem
from solver.states import FloatArray, IntArray, StateSpace
from solver.uneven import Key
from solver.values import Values

# paper: FlashAttention-2 (Dao 2023), section 3: five matrix products backward for two forward
ATTENTION_BACKWARD = 2.5
STATISTICS = 2  # per point: mean and variance, or maximum and sum
STATISTICS_BYTES = 4  # float32 in every framework


@dataclass(frozen=True, slots=True)
class PortModel:
    """One input or output. slot_of: part -> position among the value's shardable slots."""

    space: StateSpace | None
    slot_of: tuple[tuple[int, int], ...]
    bytes: int
    has_gradient: bool
    saved: bool
    is_parameter: bool


@dataclass(frozen=True)
class OpModel:
    """The strategies of an op, by content: two ops of equal shape share one model.

    spans: of the parts, equal to their sizes where they have none; () where no part has one.
    """

    op_class: OpClass
    dtype: str
    flops: float
    sizes: tuple[int, ...]
    shardable: tuple[bool, ...]
    reused: tuple[bool, ...]
    halo_elements: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    inputs: tuple[PortModel, ...]
    outputs: tuple[PortModel, ...]
    sparse_inputs: tuple[int, ...]
    skewed: tuple[bool, ...]
    axis_sizes: tuple[int, ...]
    axis_levels: tuple[int, ...]
    spans: tuple[int, ...] = ()

    @property
    def parts(self) -> int:
        return len(self.sizes)

    @property
    def idle(self) -> int:
        """The code of an axis that lies on nothing."""
        return self.parts

    @cached_property
    def choices(self) -> IntArray:
        """Every valid strategy, (strategies, axes), in lexicographic order."""
        codes = [j for j in range(self.parts) if self.shardable[j]]
        codes.append(self.idle)
        codes += [self.parts + 1 + g for g in range(len(self.groups))]
        own = [codes if size > 1 else [self.idle] for size in self.axis_sizes]
        rows = [row for row in product(*own) if self._divides(row)]
        found = np.array(rows, dtype=np.int64).reshape(len(rows), len(self.axis_sizes))
        valid = np.ones(len(found), dtype=np.bool_)
        for k, port in enumerate(self.inputs):
            if port.space is not None:
                valid &= port.space.valid(self.required(found, k))
        for k, port in enumerate(self.outputs):
            if port.space is not None:
                valid &= port.space.valid(self.made(found, k))
        return found[valid]

    def _divides(self, row: tuple[int, ...]) -> bool:
        ways: dict[int, int] = {}
        for code, size in zip(row, self.axis_sizes, strict=True):
            if code < self.parts:
                ways[code] = ways.get(code, 1) * size
        lengths = self.spans or self.sizes
        return all(lengths[code] % way == 0 for code, way in ways.items())

    def required(self, choices: IntArray, port: int) -> IntArray:
        """The states in which input `port` is needed, in codes of its value."""
        model = self.inputs[port]
        assert model.space is not None
        n = model.space.slots
        lacking = n + 2 if model.has_gradient else n
        table = self._table(model, lacking, n)
        for g, group in enumerate(self.groups):
            table[self.parts + 1 + g] = n + 1 if port in group else lacking
        return table[choices]

    def made(self, choices: IntArray, port: int) -> IntArray:
        """The states in which output `port` comes out."""
        model = self.outputs[port]
        assert model.space is not None
        n = model.space.slots
        table = self._table(model, n + 1, n)
        has = {part for part, _ in model.slot_of}
        for part in range(self.parts):
            if self.reused[part] and part not in has:
                table[part] = n
        table[self.parts + 1 :] = n + 1
        return table[choices]

    def _table(self, model: PortModel, lacking: int, idle: int) -> IntArray:
        table = np.full(self.parts + 1 + len(self.groups), lacking, dtype=np.int64)
        for part, slot in model.slot_of:
            table[part] = slot
        table[self.idle] = idle
        return table

    def workers(self, choices: IntArray) -> FloatArray:
        """How many devices share the work."""
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        shared: FloatArray = np.where(choices < self.parts, sizes, 1.0).prod(axis=1)
        return shared

    def ways(self, choices: IntArray, port: PortModel | None = None) -> FloatArray:
        """How often what the fullest device has of the work (or of one tensor) is in the whole."""
        if port is None:
            return self._ways_of(choices, [True] * self.parts)
        own = {part for part, _ in port.slot_of}
        return self._ways_of(choices, [part in own for part in range(self.parts)])

    def _skew(self, choices: IntArray) -> FloatArray:
        """The work of the device with most of it, over the mean."""
        skew = np.ones(len(choices))
        for part, skewed in enumerate(self.skewed):
            if skewed:
                skew *= 2 - 1 / self._ways_of(choices, [k == part for k in range(self.parts)])
        return skew

    @property
    def runs_backward(self) -> bool:
        return any(port.has_gradient for port in self.outputs)

    def compute_ns(self, choices: IntArray, device: Device, calibration: Calibration) -> FloatArray:
        """Time of the op's own work, forward and backward, without communication."""
        flops = self.flops / self.ways(choices) * self._skew(choices)
        moved = [
            self.outputs[0].bytes / self.ways(choices)  # a lookup reads the rows it returns
            if k in self.sparse_inputs
            else port.bytes / self.ways(choices, port)
            for k, port in enumerate(self.inputs)
        ]
        made = [port.bytes / self.ways(choices, port) for port in self.outputs]
        zero = np.zeros(len(choices))
        forward = op_ns(
            self.op_class,
            flops,
            bytes_moved=sum(moved, zero) + sum(made, zero),
            dtype=self.dtype,
            device=device,
            calibration=calibration,
        )
        if not self.runs_backward:
            return forward
        pairs = list(zip(self.inputs, moved, strict=True))
        gradients = sum((own for port, own in pairs if port.has_gradient), zero)
        saved = sum((own for port, own in pairs if port.saved), zero)
        return forward + op_ns(
            self.op_class,
            flops * self._backward_share,
            bytes_moved=gradients + saved + sum(made, zero),
            dtype=self.dtype,
            device=device,
            calibration=calibration,
        )

    @property
    def _backward_share(self) -> float:
        if self.op_class == "attention":
            return ATTENTION_BACKWARD
        if self.op_class in ("matmul", "convolution"):
            return float(sum(port.has_gradient for port in self.inputs[:2]))
        return 1.0

    def inner_communication_ns(self, choices: IntArray, interconnect: Interconnect) -> FloatArray:
        """Time of all-reduces of statistics and of halo exchanges, forward and backward."""
        passes = 2 if self.runs_backward else 1
        total = np.zeros(len(choices))
        first = self.inputs[0] if self.inputs else None
        for group in range(1, 1 << len(self.axis_sizes)):
            axes = [a for a in range(len(self.axis_sizes)) if group >> a & 1]
            rows = np.ones(len(choices), dtype=np.bool_)
            for a in range(len(self.axis_sizes)):
                rows &= self._is(self.reused, choices[:, a]) == (a in axes)
            if rows.any() and first is not None:
                elsewhere = self._ways_of(choices[rows], [not own for own in self.reused])
                payload = STATISTICS * STATISTICS_BYTES * self._statistic_points / elsewhere
                cost = collective_cost(
                    "all_reduce", self._extents(axes, interconnect), interconnect
                )
                total[rows] += passes * cost.ns(payload)
        for part, elements in enumerate(self.halo_elements):
            if not elements or first is None:
                continue
            axes_on = choices == part
            for a in range(len(self.axis_sizes)):
                rows = axes_on[:, a]
                if not rows.any():
                    continue
                local = first.bytes / self.ways(choices[rows], first)
                extent = self.sizes[part] / self._ways_of(
                    choices[rows], [k == part for k in range(self.parts)]
                )
                cost = collective_cost("send", self._extents([a], interconnect), interconnect)
                total[rows] += passes * cost.ns(local * np.minimum(1.0, elements / extent))
        return total

    @property
    def _statistic_points(self) -> float:
        """How many reductions the op makes: elements of its first input over the reused parts."""
        own = {part for part, _ in self.inputs[0].slot_of}
        return math.prod(float(self.sizes[part]) for part in own if not self.reused[part])

    def _is(self, flags: tuple[bool, ...], codes: IntArray) -> NDArray[np.bool_]:
        table = np.zeros(self.parts + 1 + len(self.groups), dtype=np.bool_)
        table[: self.parts] = flags
        found: NDArray[np.bool_] = table[codes]
        return found

    def _ways_of(self, choices: IntArray, flags: list[bool]) -> FloatArray:
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        cut: FloatArray = np.where(self._is(tuple(flags), choices), sizes, 1.0).prod(axis=1)
        for part, (span, size) in enumerate(zip(self.spans, self.sizes, strict=False)):
            if flags[part] and span > size:
                cut = np.where((choices == part).any(axis=1), cut * size / span, cut)
        return cut

    def _extents(self, axes: list[int], interconnect: Interconnect) -> Extents:
        return interconnect.extents_of((self.axis_levels[a], self.axis_sizes[a]) for a in axes)


@dataclass(slots=True)
class OpModels:
    """Op models of a problem on one mesh, one object for all ops of equal content."""

    problem: Problem
    values: Values
    axis_sizes: tuple[int, ...]
    axis_levels: tuple[int, ...]
    _spaces: dict[StateSpace, StateSpace] = field(default_factory=dict)
    _models: dict[OpModel, OpModel] = field(default_factory=dict)
    _by_position: dict[int, OpModel] = field(default_factory=dict)
    _by_root: dict[str, StateSpace] = field(default_factory=dict)

    def space(self, root: str) -> StateSpace:
        """The states of the value with this root tensor."""
        known = self._by_root.get(root)
        if known is not None:
            return known
        value = self.values.value_of[root]
        info = self.problem.tensors[value.root]
        space = StateSpace(
            tuple(info.slots[slot].size for slot in value.slots),
            self.axis_sizes,
            info.bytes,
            info.has_gradient,
            self._spans(
                [(value.root, slot) for slot in value.slots],
                [info.slots[slot].size for slot in value.slots],
            ),
        )
        self._by_root[root] = self._spaces.setdefault(space, space)
        return self._by_root[root]

    def _spans(self, keys: Sequence[Key], sizes: Sequence[int]) -> tuple[int, ...]:
        """The spans of slots or parts, their sizes where they have none; () where none has."""
        own = [self.problem.uneven.span(key, self.axis_sizes) for key in keys]
        if all(span is None for span in own):
            return ()
        return tuple(span or size for span, size in zip(own, sizes, strict=True))

    def model(self, position: int) -> OpModel:
        """The model of the op at this position of the problem."""
        if position not in self._by_position:
            model = self._make(position)
            self._by_position[position] = self._models.setdefault(model, model)
        return self._by_position[position]

    def _make(self, position: int) -> OpModel:
        op = self.problem.ops[position]
        rule = op.known.rule if op.known is not None else None
        # constants are made whole on every device: they are small and then free to slice
        makes_constants = all(self.values.value_of[port.tensor].is_free for port in op.outputs)
        allowed = frozenset() if makes_constants else self.values.shardable[position]
        dense = op.known is not None and op.known.op_class == "memory"
        inputs = tuple(self._port(op, position, k, True) for k in range(len(op.inputs)))
        groups = tuple(
            group
            for group in (rule.linear if rule is not None and dense else ())
            if all(
                inputs[k].space is not None
                and inputs[k].has_gradient
                and not inputs[k].is_parameter
                for k in group
            )
        )
        return OpModel(
            op.known.op_class if op.known is not None else "memory",
            self.problem.tensors[(op.op.inputs or op.op.outputs)[0]].tensor.dtype,
            op.flops,
            tuple(part.size for part in op.parts),
            tuple(j in allowed for j in range(len(op.parts))),
            tuple(part.reused for part in op.parts),
            tuple(part.halo_elements for part in op.parts),
            groups,
            inputs,
            tuple(self._port(op, position, k, False) for k in range(len(op.outputs))),
            op.known.sparse_inputs if op.known is not None else (),
            tuple(op.known is not None and part.factor in op.known.skewed for part in op.parts),
            self.axis_sizes,
            self.axis_levels,
            self._spans(
                [(position, j) for j in range(len(op.parts))], [part.size for part in op.parts]
            ),
        )

    def _port(self, op: OpInfo, position: int, k: int, is_input: bool) -> PortModel:
        port = (op.inputs if is_input else op.outputs)[k]
        info = self.problem.tensors[port.tensor]
        value = self.values.value_of[port.tensor]
        to_root: Mapping[int, int] = value.slot_of[port.tensor]
        places = {slot: place for place, slot in enumerate(value.slots)}
        return PortModel(
            None if value.is_free else self.space(value.root),
            tuple(
                sorted(
                    (part, places.get(to_root[slot], -1) if not value.is_free else 0)
                    for part, slot in port.slot_of.items()
                    if value.is_free or to_root[slot] in places
                )
            ),
            info.bytes,
            info.has_gradient,
            is_input and (position, k) in value.saving,
            value.is_parameter,
        )
