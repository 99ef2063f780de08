"""All strategies of one op on one mesh: what each needs, makes and costs.

A strategy has one code per mesh axis. For an op with parts 0 .. n-1

    0 .. n-1   the axis lies on this part
    n          the axis lies on nothing: the op is repeated
    n + 1 + g  partial sums pass through the inputs of linear group g
    then       the axis lies on a part and on the parts that may follow it (`t@s?`)

An axis on a part makes the inputs and outputs that have the part S; an input without it V (its
gradient is partial) or R where it has no gradient; an output without it P. A reused part (`^`)
leaves such outputs R, since the op reduces its statistics itself. Where parts follow, an input that
has them and not their leader is S on them, and the op brings together what it needs.

    time = op_ns(flops / ways, bytes / ways) forward, the same backward with the gradients' share,
           + what the op moves by itself (`solver/meshwright_solver/strategies/op_collectives.py`)

where FLOPs of products and attention count as much longer as the device's curves say of what is
left of their shape (`costmodel/meshwright_costmodel/curves.py`), each gradient's product in its
own,

with ways the product of the axis sizes on parts, less where these cut a part unevenly: the step
waits for the longest chunk, and for the device whose experts are asked for most
(`costmodel/meshwright_costmodel/expert_imbalance.py`). Where parts are contiguous, of p along the
rows of a causal mask the last has (2 - 1/p) times its share, and that is what a step waits for;
where the setup says `zigzag` all have the same
(`solver/meshwright_solver/evaluation/sequence_order.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Device
from meshwright_costmodel.curves import Rates, Shape, rates_of
from meshwright_costmodel.operators import op_ns
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.layouts.axis_placements import placements
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.strategies.op_template import OpSketch, PortSketch

# paper: FlashAttention-2 (Dao 2023), section 3: five matrix products backward for two forward
ATTENTION_BACKWARD = 2.5


def in_even_parts(rows: int, ways: FloatArray | int) -> NDArray[np.bool_]:
    """Whether so many parts of the rows of a causal mask can be made as much work."""
    return np.asarray(rows % (2 * ways) == 0)


@dataclass(frozen=True, kw_only=True)
class PortModel(PortSketch):
    """One input or output on the mesh; no space where it is free."""

    space: StateSpace | None


# keeps some rows of the choices of an op: (choices,) of whether it does
StrategyFilter = Callable[["OpModel", IntArray], BoolArray]


@dataclass(frozen=True, kw_only=True)
class OpModel(OpSketch):
    """The strategies of an op, by content: two ops of equal shape share one model.

    spans: of the parts, equal to their sizes where they have none; () where no part has one.
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
        """What an axis with each code lies on: nothing, a part, or a part and its followers."""
        return (
            *((j,) for j in range(self.parts)),
            *((),) * (1 + len(self.groups)),
            *((leader, *own) for leader, own in self.followers),
        )

    @cached_property
    def leader_of_code(self) -> IntArray:
        """Each code as if no part followed another."""
        codes = range(len(self.parts_of_code))
        first = len(codes) - len(self.followers)
        return np.array([self.parts_of_code[c][0] if c >= first else c for c in codes])

    def following(self, leader: int) -> int | None:
        """The code of an axis on a part and on those that follow it."""
        leaders = [own for own, _ in self.followers]
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
        found = placements(codes, self.idle, self.parts_of_code, lengths, self.axis_sizes)
        return found[self._has_layouts(found)]

    def _has_layouts(self, choices: IntArray) -> NDArray[np.bool_]:
        """Which choices need and make valid states of all values."""
        valid = np.ones(len(choices), dtype=np.bool_)
        for k, port in enumerate(self.inputs):
            if port.space is not None:
                valid &= port.space.valid(self.required(choices, k))
        for k, port in enumerate(self.outputs):
            if port.space is not None:
                valid &= port.space.valid(self.made(choices, k))
        return valid

    def ways_of_parts(self, codes: Sequence[int]) -> list[int]:
        """Into how many one strategy cuts each part."""
        ways = [1] * self.parts
        for code, size in zip(codes, self.axis_sizes, strict=True):
            for part in self.parts_of_code[code]:
                ways[part] *= size
        return ways

    def is_valid(self, codes: Sequence[int]) -> bool:
        """Whether one strategy, of known codes, is among the choices; without listing these."""
        ways, lengths = self.ways_of_parts(codes), self.spans or self.sizes
        if any(length % way for length, way in zip(lengths, ways, strict=True)):
            return False
        return bool(self._has_layouts(np.array([codes], dtype=np.int64))[0])

    def required(self, choices: IntArray, port: int) -> IntArray:
        """The states in which input `port` is needed, in codes of its value."""
        return self._needed[port][choices]

    def made(self, choices: IntArray, port: int) -> IntArray:
        """The states in which output `port` comes out."""
        return self._made[port][choices]

    @cached_property
    def _needed(self) -> list[IntArray]:
        """By input and code: the code of its value; for ports that are free nothing."""
        found = []
        for k, port in enumerate(self.inputs):
            n = 0 if port.space is None else port.space.slots
            lacking = n + 2 if port.has_gradient else n
            codes = self._codes(port, lacking, n)
            for g, group in enumerate(self.groups):
                codes[self.parts + 1 + g] = n + 1 if k in group else lacking
            found.append(np.array(codes, dtype=np.int64))
        return found

    @cached_property
    def _made(self) -> list[IntArray]:
        """The same by output."""
        found = []
        for port in self.outputs:
            n = 0 if port.space is None else port.space.slots
            codes = self._codes(port, n + 1, n)
            has = {part for part, _ in port.slot_of}
            for code, own in enumerate(self.parts_of_code):
                if own and self.reused[own[0]] and not has.intersection(own):
                    codes[code] = n
            found.append(np.array(codes, dtype=np.int64))
        return found

    def _codes(self, port: PortModel, lacking: int, idle: int) -> list[int]:
        slots = dict(port.slot_of)
        # a leader comes before its followers: a mask over both is sharded on the leader alone
        codes = [
            next((slots[part] for part in own if part in slots), lacking)
            for own in self.parts_of_code
        ]
        codes[self.idle] = idle
        return codes

    def workers(self, choices: IntArray) -> FloatArray:
        """How many devices share the work."""
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        shared: FloatArray = np.where(self.leader_of_code[choices] < self.parts, sizes, 1.0).prod(
            axis=1
        )
        return shared

    def looked_up_bytes(self, choices: IntArray) -> FloatArray:
        """What a device reads of a table by its rows; where it looks for all, only those it has."""
        return self.outputs[0].bytes / self.workers(choices)

    def ways(self, choices: IntArray, port: PortModel | None = None) -> FloatArray:
        """How often what the fullest device has of the work (or of one tensor) is in the whole."""
        own = set(range(self.parts)) if port is None else {part for part, _ in port.slot_of}
        ways = self.ways_of(choices, [part in own for part in range(self.parts)])
        return ways if port is not None and not port.has_load else ways / self.load_of(choices)

    def load_of(self, choices: IntArray) -> FloatArray | float:
        """The tokens of the device whose experts are asked for most, over the mean."""
        if self.load is None:
            return 1.0
        # experts lead no part and follow none
        return self.load.of(self.leader_of_code[choices], self.axis_sizes)

    def _skew(self, choices: IntArray) -> FloatArray:
        """The work of the device with most of it, over the mean."""
        skew = np.ones(len(choices))
        for part, skewed in enumerate(self.skewed):
            if skewed:
                ways = self.ways_of(choices, [k == part for k in range(self.parts)])
                skew *= np.where(self._is_even(part, ways), 1.0, 2 - 1 / ways)
        return skew

    def _is_even(self, part: int, ways: FloatArray) -> NDArray[np.bool_]:
        """Where parts of the rows of a causal mask are as much work, in the order of the plan."""
        is_cut_evenly = not self.spans or self.spans[part] == self.sizes[part]
        if not (self.zigzag and is_cut_evenly):
            return np.zeros(len(ways), dtype=np.bool_)
        return in_even_parts(self.sizes[part], ways)

    @cached_property
    def runs_backward(self) -> bool:
        return any(port.has_gradient for port in self.outputs)

    def compute_ns(self, choices: IntArray, device: Device, calibration: Calibration) -> FloatArray:
        """Time of the op's own work, forward and backward, without communication.

        What is done again runs forward twice.
        """
        forward, inputs, weights = self.passes_ns(choices, device, calibration)
        return (2 * forward if self.is_remade else forward) + inputs + weights

    def passes_ns(
        self, choices: IntArray, device: Device, calibration: Calibration
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time of the forward pass, once, and of both halves of the backward pass."""
        ways = _Ways(self, choices)
        # what goes round a group is read by every member of it
        passing = _Ways(self, self.leader_of_code[choices]) if self.followers else ways
        flops = self.flops / ways.of_work * self._skew(choices)
        moved = [
            self.outputs[0].bytes / ways.of_work  # a lookup reads the rows it returns
            if k in self.sparse_inputs
            else port.bytes / passing.of(port)
            for k, port in enumerate(self.inputs)
        ]
        made = [port.bytes / ways.of(port) for port in self.outputs]
        if self.in_place:
            moved[0], made = np.zeros(len(choices)), [moved[1]]
        zero = np.zeros(len(choices))
        forth, back = self._stretches(ways, rates_of(calibration, device))
        forward = op_ns(
            self.op_class,
            flops * forth,
            bytes_moved=sum(moved, zero) + sum(made, zero),
            dtype=self.dtype,
            device=device,
            calibration=calibration,
        )
        if not self.runs_backward:
            return forward, zero, zero
        pairs = list(zip(self.inputs, moved, strict=True))
        gradients = sum((own for port, own in pairs if port.has_gradient), zero)
        saved = sum((own for port, own in pairs if port.saved), zero)
        backward = op_ns(
            self.op_class,
            flops * back,
            bytes_moved=gradients + saved + sum(made, zero),
            dtype=self.dtype,
            device=device,
            calibration=calibration,
        )
        weights = backward * self.weights_share
        return forward, backward - weights, weights

    @cached_property
    def weights_share(self) -> float:
        """Of the backward pass, what makes gradients of parameters alone and nobody waits for.

        Products have one for each operand; other ops make all gradients at once.
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
        """How many times its FLOPs an op's passes take, forward and backward."""
        wanted = [port.has_gradient for port in self.inputs[:2]]
        if self.op_class == "attention":
            forth = rates.stretch(self.op_class, self._local(ways), self.dtype)
            return forth, forth * (ATTENTION_BACKWARD / rates.attention_backward)
        if self.op_class not in ("matmul", "convolution"):
            return 1.0, 1.0
        shape = self._local(ways)
        if shape is None:
            return 1.0, float(sum(wanted))
        both = zip(wanted, (shape.of_left, shape.of_right), strict=True)
        every = shape.and_others(*(own for is_wanted, own in both if is_wanted))
        found = np.asarray(rates.stretch(self.op_class, every, self.dtype))
        return found[0], found[1:].sum(axis=0)

    def _local(self, ways: _Ways) -> Shape | None:
        return None if self.shape is None else self.shape.local(ways.of_parts, ways.load)

    def lies_on(self, flags: Sequence[bool], choices: IntArray) -> NDArray[np.bool_]:
        """(strategies, axes): whether an axis lies on one of the parts flagged."""
        table = np.array([any(flags[part] for part in own) for own in self.parts_of_code])
        found: NDArray[np.bool_] = table[choices]
        return found

    def ways_of(self, choices: IntArray, flags: Sequence[bool]) -> FloatArray:
        """`ways` of what has the parts flagged."""
        sizes = np.array(self.axis_sizes, dtype=np.float64)
        cut: FloatArray = np.where(self.lies_on(flags, choices), sizes, 1.0).prod(axis=1)
        for part, (span, size) in enumerate(zip(self.spans, self.sizes, strict=False)):
            if flags[part] and span > size:
                first = [next((p for p in own if flags[p]), -1) for own in self.parts_of_code]
                on = (np.array(first)[choices] == part).any(axis=1)
                cut = np.where(on, cut * size / span, cut)
        return cut


class _Ways:
    """`OpModel.ways` of some strategies, once for all ports that have the same parts."""

    def __init__(self, model: OpModel, choices: IntArray) -> None:
        self._model = model
        self._choices = choices
        self._known: dict[frozenset[int], FloatArray] = {}
        self.load = model.load_of(choices)
        self._of_each = None if model.followers or model.spans else self._table()

    def _table(self) -> FloatArray:
        """(strategies, parts): `ways` of every part alone; where no axis lies on two parts and all
        are cut evenly, those of several are the product of theirs."""
        lies = self._choices[:, :, None] == np.arange(self._model.parts)
        sizes = np.array(self._model.axis_sizes, dtype=np.float64)
        found: FloatArray = np.where(lies, sizes[:, None], 1.0).prod(axis=1)
        return found

    @property
    def of_work(self) -> FloatArray:
        return self.of_parts(frozenset(range(self._model.parts))) / self.load

    def of(self, port: PortModel) -> FloatArray:
        ways = self.of_parts(frozenset([part for part, _ in port.slot_of]))
        return ways / self.load if port.has_load else ways

    def of_parts(self, parts: frozenset[int]) -> FloatArray:
        """Of those alone, as if all experts were asked for as much."""
        found = self._known.get(parts)
        if found is None:
            if self._of_each is not None:
                found = self._of_each[:, list(parts)].prod(axis=1)
            else:
                flags = [part in parts for part in range(self._model.parts)]
                found = self._model.ways_of(self._choices, flags)
            self._known[parts] = found
        return found
