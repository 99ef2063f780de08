"""The strategies of one op on one mesh: the layouts that each requires and produces, and its time.

A strategy has one code per mesh axis. For an op with parts 0 .. n-1

    0 .. n-1   the axis lies on this part
    n          the axis lies on nothing: the op is replicated
    n + 1 + g  partial sums pass through the inputs of linear group g
    then       the axis lies on a part and on the parts that may follow it (`t@s?`)

An axis on a part gives S to the inputs and outputs that have the part. An input without it gets V
(its gradient is partial), or R where it has no gradient; an output without it gets P. A reused part
(`^`) leaves such outputs R, since the op reduces its statistics itself. An input that has followers
and not their leader is S on the followers, and an own step brings its blocks together.

    time = op_ns(flops / ways, bytes / ways) forward, the same backward with the gradients' share,
           + own steps (`solver/meshwright_solver/strategies/op_collectives.py`)

ways: the product of the axis sizes on parts, with these corrections:

- Uneven parts: the longest chunk counts.
- Experts: the device with the most tokens counts
  (`costmodel/meshwright_costmodel/expert_imbalance.py`).
- Causal masks: of p contiguous parts of the rows, the last has (2 - 1/p) times the mean work, which
  counts. In `zigzag` order all parts have the same work
  (`solver/meshwright_solver/evaluation/sequence_order.py`).

The FLOPs of products and attention are scaled by the device's curves at the local shape
(`costmodel/meshwright_costmodel/curves.py`), each product of a gradient at its own shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Device
from meshwright_costmodel.curves import Rates, Shape, rates_of
from meshwright_costmodel.operators import NS_PER_S, op_ns
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.layouts.axis_placements import placements
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.problem.precision_recipes import SHARE
from meshwright_solver.strategies.op_template import OpSketch, PortSketch

# paper: FlashAttention-2 (Dao 2023), section 3: five matrix products backward for two forward
ATTENTION_BACKWARD = 2.5


def in_even_parts(rows: int, ways: FloatArray | int) -> NDArray[np.bool_]:
    """Whether the rows of a causal mask can be cut into `ways` parts of equal work."""
    return np.asarray(rows % (2 * ways) == 0)


@dataclass(frozen=True, kw_only=True)
class PortModel(PortSketch):
    """One input or output on the mesh. space: None where the value is free."""

    space: StateSpace | None


# a mask over the choices of an op, (choices,)
StrategyFilter = Callable[["OpModel", IntArray], BoolArray]


@dataclass(frozen=True, kw_only=True)
class OpModel(OpSketch):
    """The strategies of an op; ops of equal content share one model.

    spans: by part, its size where it has none; () where no part has one.
    """

    inputs: tuple[PortModel, ...]
    outputs: tuple[PortModel, ...]
    axis_sizes: tuple[int, ...]
    axis_levels: tuple[int, ...]
    spans: tuple[int, ...]

    @property
    def parts(self) -> int:
        return len(self.sizes)

    @property
    def idle(self) -> int:
        """The code of an axis that lies on nothing."""
        return self.parts

    @cached_property
    def parts_of_code(self) -> tuple[tuple[int, ...], ...]:
        """By code: the parts that the axis lies on: none, one, or a part and its followers."""
        return (
            *((j,) for j in range(self.parts)),
            *((),) * (1 + len(self.groups)),
            *((leader, *followers) for leader, followers in self.followers),
        )

    @cached_property
    def leader_of_code(self) -> IntArray:
        """By code: the code of the leader alone, or the code itself without followers."""
        codes = range(len(self.parts_of_code))
        first = len(codes) - len(self.followers)
        return np.array([self.parts_of_code[c][0] if c >= first else c for c in codes])

    def following(self, leader: int) -> int | None:
        """The code of an axis on a part and its followers; None where it has none."""
        leaders = [first for first, _ in self.followers]
        if leader not in leaders:
            return None
        return self.parts + 1 + len(self.groups) + leaders.index(leader)

    @cached_property
    def choices(self) -> IntArray:
        """Every valid strategy, (strategies, axes), in lexicographic order."""
        codes = [j for j in range(self.parts) if self.shardable[j]]
        codes.append(self.idle)
        codes += range(self.parts + 1, len(self.parts_of_code))
        lengths = self.spans or self.sizes
        all_choices = placements(codes, self.idle, self.parts_of_code, lengths, self.axis_sizes)
        return all_choices[self._has_layouts(all_choices)]

    def _has_layouts(self, choices: IntArray) -> NDArray[np.bool_]:
        """(choices,): whether all values have valid states."""
        valid = np.ones(len(choices), dtype=np.bool_)
        for k, port in enumerate(self.inputs):
            if port.space is not None:
                valid &= port.space.valid(self.required(choices, k))
        for k, port in enumerate(self.outputs):
            if port.space is not None:
                valid &= port.space.valid(self.made(choices, k))
        return valid

    def ways_of_parts(self, codes: Sequence[int]) -> list[int]:
        """Number of cuts of each part in one strategy."""
        ways = [1] * self.parts
        for code, size in zip(codes, self.axis_sizes, strict=True):
            for part in self.parts_of_code[code]:
                ways[part] *= size
        return ways

    def is_valid(self, codes: Sequence[int]) -> bool:
        """Whether a strategy of known codes is in `choices`, without computing `choices`."""
        ways, lengths = self.ways_of_parts(codes), self.spans or self.sizes
        if any(length % way for length, way in zip(lengths, ways, strict=True)):
            return False
        return bool(self._has_layouts(np.array([codes], dtype=np.int64))[0])

    def required(self, choices: IntArray, port: int) -> IntArray:
        """The required states of input `port`, in codes of its value, (choices, axes)."""
        return self._required_tables[port][choices]

    def made(self, choices: IntArray, port: int) -> IntArray:
        """The states of output `port`, in codes of its value, (choices, axes)."""
        return self._output_tables[port][choices]

    @cached_property
    def _required_tables(self) -> list[IntArray]:
        """By input: strategy code -> code of its value; of no meaning for free inputs."""
        tables = []
        for k, port in enumerate(self.inputs):
            n = 0 if port.space is None else port.space.slots
            lacking = n + 2 if port.has_gradient else n
            codes = self._codes(port, lacking, n)
            for g, group in enumerate(self.groups):
                codes[self.parts + 1 + g] = n + 1 if k in group else lacking
            tables.append(np.array(codes, dtype=np.int64))
        return tables

    @cached_property
    def _output_tables(self) -> list[IntArray]:
        """By output: strategy code -> code of its value; of no meaning for free outputs."""
        tables = []
        for port in self.outputs:
            n = 0 if port.space is None else port.space.slots
            codes = self._codes(port, n + 1, n)
            has = {part for part, _ in port.slot_of}
            for code, parts in enumerate(self.parts_of_code):
                if parts and self.reused[parts[0]] and not has.intersection(parts):
                    codes[code] = n
            tables.append(np.array(codes, dtype=np.int64))
        return tables

    def _codes(self, port: PortModel, lacking: int, idle: int) -> list[int]:
        slots = dict(port.slot_of)
        # a leader comes before its followers: a mask over both is sharded on the leader alone
        codes = [
            next((slots[part] for part in parts if part in slots), lacking)
            for parts in self.parts_of_code
        ]
        codes[self.idle] = idle
        return codes

    def workers(self, choices: IntArray) -> FloatArray:
        """Number of devices that share the work."""
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        shared: FloatArray = np.where(self.leader_of_code[choices] < self.parts, sizes, 1.0).prod(
            axis=1
        )
        return shared

    def looked_up_bytes(self, choices: IntArray) -> FloatArray:
        """Bytes of a table that a device reads; of a sharded table, only rows that it holds."""
        return self.outputs[0].bytes / self.workers(choices)

    def ways(self, choices: IntArray, port: PortModel | None = None) -> FloatArray:
        """The work (or the size of a tensor) over that of the fullest device."""
        parts = set(range(self.parts)) if port is None else {part for part, _ in port.slot_of}
        ways = self.ways_of(choices, [part in parts for part in range(self.parts)])
        return ways if port is not None and not port.has_load else ways / self.load_of(choices)

    def load_of(self, choices: IntArray) -> FloatArray | float:
        """Tokens of the device with the busiest experts, over the mean."""
        if self.load is None:
            return 1.0
        # experts lead no part and follow none
        return self.load.of(self.leader_of_code[choices], self.axis_sizes)

    def _skew(self, choices: IntArray) -> FloatArray:
        """Work of the busiest device under a causal mask, over the mean."""
        skew = np.ones(len(choices))
        for part, skewed in enumerate(self.skewed):
            if skewed:
                ways = self.ways_of(choices, [k == part for k in range(self.parts)])
                skew *= np.where(self._is_even(part, ways), 1.0, 2 - 1 / ways)
        return skew

    def _is_even(self, part: int, ways: FloatArray) -> NDArray[np.bool_]:
        """(choices,): whether zigzag order gives all parts of the causal mask's rows equal work."""
        is_cut_evenly = not self.spans or self.spans[part] == self.sizes[part]
        if not (self.zigzag and is_cut_evenly):
            return np.zeros(len(ways), dtype=np.bool_)
        return in_even_parts(self.sizes[part], ways)

    @cached_property
    def runs_backward(self) -> bool:
        return any(port.has_gradient for port in self.outputs)

    def compute_ns(self, choices: IntArray, device: Device, calibration: Calibration) -> FloatArray:
        """Compute time of the op, forward and backward, ns. A recomputed op runs forward twice."""
        forward, inputs, weights = self.passes_ns(choices, device, calibration)
        return (2 * forward if self.is_remade else forward) + inputs + weights

    def passes_ns(
        self, choices: IntArray, device: Device, calibration: Calibration
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute times, ns: of one forward pass, input gradients and weight gradients."""
        ways = _Ways(self, choices)
        # every member of a group reads all blocks that circulate in it
        passing = _Ways(self, self.leader_of_code[choices]) if self.followers else ways
        flops = self.flops / ways.of_work * self._skew(choices)
        moved = [
            self.outputs[0].bytes / ways.of_work  # a lookup reads the rows it returns
            if k in self.sparse_inputs
            else port.bytes / passing.of(port)
            for k, port in enumerate(self.inputs)
        ]
        output_bytes = [port.bytes / ways.of(port) for port in self.outputs]
        if self.in_place:
            moved[0], output_bytes = np.zeros(len(choices)), [moved[1]]
        quantization = self._quantization_bytes(moved, output_bytes)
        if self.quantized:
            moved = [size * SHARE for size in moved]
        zero = np.zeros(len(choices))
        rates = rates_of(calibration, device)
        forth, back = self._stretches(ways, rates)
        forward = op_ns(
            self.op_class,
            flops * forth,
            bytes_moved=sum(moved, zero) + sum(output_bytes, zero),
            steps=self.steps,
            dtype=self.dtype,
            device=device,
            calibration=calibration,
        )
        group_ns = self._group_launches(ways, rates) * calibration.launch_ns
        forward = forward + group_ns
        if self.quantized:
            forward = forward + self._quantization_ns(quantization[0], device, calibration)
        if not self.runs_backward:
            return forward, zero, zero
        pairs = list(zip(self.inputs, moved, strict=True))
        gradients = sum((port_bytes for port, port_bytes in pairs if port.has_gradient), zero)
        saved = sum((port_bytes for port, port_bytes in pairs if port.saved), zero)
        backward = op_ns(
            self.op_class,
            flops * back,
            bytes_moved=gradients + saved + sum(output_bytes, zero),
            steps=self.steps,
            dtype=self.dtype,
            device=device,
            calibration=calibration,
        )
        backward = backward + sum(port.has_gradient for port in self.inputs[:2]) * group_ns
        if self.quantized:
            backward = backward + self._quantization_ns(quantization[1], device, calibration)
        weights = backward * self.weights_share
        return forward, backward - weights, weights

    def _quantization_bytes(
        self, moved: Sequence[FloatArray], output_bytes: Sequence[FloatArray]
    ) -> tuple[FloatArray | float, FloatArray | float]:
        """Bytes that quantizations move in the forward pass, of the activation, and in the backward
        pass, of the result's gradient."""
        if not self.quantized:
            return 0.0, 0.0
        activations = [
            size for port, size in zip(self.inputs, moved, strict=True) if not port.is_parameter
        ]
        return activations[0] * self.quantized, output_bytes[0] * self.quantized

    @staticmethod
    def _quantization_ns(
        bytes_moved: FloatArray | float, device: Device, calibration: Calibration
    ) -> FloatArray | float:
        rate = device.memory_bytes_per_s * rates_of(calibration, device).memory
        return bytes_moved / rate * NS_PER_S

    @cached_property
    def weights_share(self) -> float:
        """Share of the backward pass that computes weight gradients alone.

        A product computes the gradient of each operand separately; other ops compute all at once.
        """
        wanted = [port.is_parameter for port in self.inputs if port.has_gradient]
        if not any(wanted):
            return 0.0
        if all(wanted):
            return 1.0
        return 0.5 if self.op_class in ("matmul", "convolution") else 0.0

    def _stretches(
        self, ways: _Ways, rates: Rates
    ) -> tuple[FloatArray | float, FloatArray | float]:
        """Factors on the op's FLOPs in the forward and the backward pass."""
        wanted = [port.has_gradient for port in self.inputs[:2]]
        if self.op_class == "attention":
            forth = rates.stretch(self.op_class, self._local(ways), self.dtype)
            return forth, forth * (ATTENTION_BACKWARD / rates.attention_backward)
        if self.op_class not in ("matmul", "convolution"):
            return 1.0, 1.0
        shape = self._local(ways)
        if shape is None or self.shape is None:
            return 1.0, float(sum(wanted))
        both = zip(wanted, (shape.of_left, shape.of_right), strict=True)
        every = shape.and_others(
            *(gradient_shape for is_wanted, gradient_shape in both if is_wanted)
        )
        stretches = np.asarray(rates.stretch(self.op_class, every, self.dtype))
        # the products of gradients have the same contiguous dims
        contiguous = (*self.shape.whole[2:], shape.columns, shape.depth)
        factor = rates.misalignment(self.dtype, contiguous)
        return stretches[0] * factor, stretches[1:].sum(axis=0) * factor

    def _group_launches(self, ways: _Ways, rates: Rates) -> FloatArray | float:
        """Launches of a pass of a product with a weight for each group, such as of experts."""
        shape = self._local(ways) if self.has_grouped_weights else None
        if shape is None:
            return 0.0
        return rates.group_launches(shape.groups, eight_bit=bool(self.quantized))

    @cached_property
    def has_grouped_weights(self) -> bool:
        """Whether every group of a product has a weight of its own."""
        if self.op_class != "matmul" or self.shape is None or self.shape.whole[0] <= 1:
            return False
        return self.shape.rows_are_of_all or any(port.is_parameter for port in self.inputs[:2])

    def _local(self, ways: _Ways) -> Shape | None:
        return None if self.shape is None else self.shape.local(ways.of_parts, ways.load)

    def lies_on(self, flags: Sequence[bool], choices: IntArray) -> NDArray[np.bool_]:
        """(strategies, axes): whether an axis lies on a flagged part."""
        table = np.array([any(flags[part] for part in parts) for parts in self.parts_of_code])
        lies: NDArray[np.bool_] = table[choices]
        return lies

    def ways_of(self, choices: IntArray, flags: Sequence[bool]) -> FloatArray:
        """(strategies,): size of a tensor with the flagged parts over its longest chunk."""
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        cut: FloatArray = np.where(self.lies_on(flags, choices), sizes, 1.0).prod(axis=1)
        for part, (span, size) in enumerate(zip(self.spans, self.sizes, strict=False)):
            if flags[part] and span > size:
                first = [next((p for p in parts if flags[p]), -1) for parts in self.parts_of_code]
                on = (np.array(first)[choices] == part).any(axis=1)
                cut = np.where(on, cut * size / span, cut)
        return cut


class _Ways:
    """`OpModel.ways` of some strategies, cached for ports of the same parts."""

    def __init__(self, model: OpModel, choices: IntArray) -> None:
        self._model = model
        self._choices = choices
        self._known: dict[frozenset[int], FloatArray] = {}
        self.load = model.load_of(choices)
        self._of_each = None if model.followers or model.spans else self._table()

    def _table(self) -> FloatArray:
        """(strategies, parts): `ways` of every part alone.

        If no axis lies on two parts and all cuts are even, `ways` of several parts is the product.
        """
        lies = self._choices[:, :, None] == np.arange(self._model.parts)
        sizes = np.array(self._model.axis_sizes, dtype=np.float64)
        ways: FloatArray = np.where(lies, sizes[:, None], 1.0).prod(axis=1)
        return ways

    @property
    def of_work(self) -> FloatArray:
        return self.of_parts(frozenset(range(self._model.parts))) / self.load

    def of(self, port: PortModel) -> FloatArray:
        ways = self.of_parts(frozenset([part for part, _ in port.slot_of]))
        return ways / self.load if port.has_load else ways

    def of_parts(self, parts: frozenset[int]) -> FloatArray:
        """`ways` of some parts, with even loads of experts."""
        ways = self._known.get(parts)
        if ways is None:
            if self._of_each is not None:
                ways = self._of_each[:, list(parts)].prod(axis=1)
            else:
                flags = [part in parts for part in range(self._model.parts)]
                ways = self._model.ways_of(self._choices, flags)
            self._known[parts] = ways
        return ways
