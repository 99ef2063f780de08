"""Sequences whose order a plan may choose: rows of causal attention, and all slots of that index.

Slots of the same index form a class, joined through factors whose order does not matter to the op
(`solver/meshwright_solver/rules/index_order.py`). A class with rows of a causal mask may be loaded
in another order if all of these hold:

- Every op with the index takes it in any order, or is causal attention, which uses true positions.
  An op of inputs and labels alone may also have the index whole on every device: it computes in
  true positions, and its result is permuted.
- No parameter and no cache has the index, since these keep the order of the checkpoint.
- The index is a whole dim of the loaded tensors: inputs, labels and constants. Every device has the
  constants in true positions and permutes them where it reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from meshwright.schema import Factor, SetupError
from meshwright.schema.sequence_order import LoadedDim
from meshwright_solver.common.union_find import Classes
from meshwright_solver.problem.op_info import OpInfo, OpPort, Slot
from meshwright_solver.problem.problem import Problem
from meshwright_solver.rules.index_order import in_any_order
from meshwright_solver.rules.op_knowledge import RECEIVE

SlotKey = tuple[str, int]  # tensor, slot


@dataclass(frozen=True, slots=True)
class Sequences:
    """The sequences of a graph by number. sizes: length of each.

    slots: (tensor, slot) -> sequence. masked: op of causal attention -> (its part, sequence).
    loaded, by_position, turned: by sequence, as in SequenceOrder.
    """

    sizes: tuple[int, ...]
    slots: Mapping[tuple[str, Slot], int]
    masked: Mapping[str, tuple[str, int]]
    loaded: tuple[tuple[LoadedDim, ...], ...]
    by_position: tuple[tuple[str, ...], ...]
    turned: tuple[tuple[LoadedDim, ...], ...]

    def in_problem(self, problem: Problem) -> dict[SlotKey, int]:
        """The sequence slots of a stage's tensors, with their sequences."""
        numbers = {}
        for name, info in problem.tensors.items():
            for k, slot in enumerate(info.slots):
                number = self.slots.get((name, slot))
                if number is not None:
                    numbers[name, k] = number
        return numbers


def rows_of(problem: Problem) -> Sequences:
    """The sequences of a whole graph. Raises SetupError without one, or where its order matters."""
    return _SequenceFinder(problem).sequences()


@dataclass(slots=True)
class _SequenceFinder:
    problem: Problem
    classes: Classes[SlotKey] = field(default_factory=Classes)
    data: set[str] = field(default_factory=set)

    def sequences(self) -> Sequences:
        self._join()
        masked = list(self._causal_rows())
        if not masked:
            raise _order_error("no op of the graph has a causal mask whose rows could be made even")
        size_of = {rows.root: rows.size for rows in masked}
        numbers = {root: number for number, root in enumerate(size_of)}
        loaded: list[dict[LoadedDim, None]] = [{} for _ in numbers]
        by_position: list[dict[str, None]] = [{} for _ in numbers]
        turned: list[dict[LoadedDim, None]] = [{} for _ in numbers]
        slots: dict[tuple[str, Slot], int] = {}
        for name, info in self.problem.tensors.items():
            for k, slot in enumerate(info.slots):
                number = numbers.get(self.classes.find((name, k)))
                if number is not None and not info.constant:
                    self._check_tensor(name, k)
                    slots[name, slot] = number
                    if info.is_free:
                        loaded[number][LoadedDim(tensor=name, dim=slot.dim)] = None
        for op in self._ops():
            for use in self._uses(op, numbers):
                if use.cares:
                    by_position[use.number][op.name] = None
                if use.turned is not None:
                    turned[use.number][use.turned] = None
            for number, dim in self._constant_dims(op, numbers):
                loaded[number][dim] = None
        return Sequences(
            tuple(size_of.values()),
            slots,
            {rows.op: (rows.part, numbers[rows.root]) for rows in masked},
            tuple(map(tuple, loaded)),
            tuple(map(tuple, by_position)),
            tuple(map(tuple, turned)),
        )

    def _ops(self) -> Iterator[OpInfo]:
        """Ops whose results are not all constant, without receives."""
        for op in self.problem.ops:
            constant = [self.problem.tensors[port.tensor].constant for port in op.outputs]
            if op.op.kind != RECEIVE and not all(constant):
                yield op

    def _join(self) -> None:
        tensors = self.problem.tensors
        self.data = {
            name for name, info in tensors.items() if info.tensor.role in ("input", "label")
        }
        self.data |= {name for name, info in tensors.items() if info.constant}
        for op in self._ops():
            if self.data.issuperset(op.op.inputs):
                self.data.update(op.op.outputs)
            anywhere = _orderless_factors(op)
            first: dict[int, SlotKey] = {}
            for port in self._ports(op):
                for part, slot in port.slot_of.items():
                    if op.parts[part].factor in anywhere:
                        key = (port.tensor, slot)
                        self.classes.join(first.setdefault(part, key), key)

    def _ports(self, op: OpInfo) -> Iterator[OpPort]:
        """Inputs and outputs of an op that are not constant."""
        for port in (*op.inputs, *op.outputs):
            if not self.problem.tensors[port.tensor].constant:
                yield port

    def _causal_rows(self) -> Iterator[_CausalRows]:
        for op in self._ops():
            for factor in op.known.skewed if op.known is not None else ():
                parts = [j for j, part in enumerate(op.parts) if part.factor == factor]
                slots = dict(op.outputs[0].slot_of)
                if _has_mask(op):
                    raise _order_error(f"op {op.name!r} has a mask besides its causal mask")
                if len(parts) != 1 or parts[0] not in slots:
                    raise _order_error(f"the rows of op {op.name!r} are no sub-dim of their own")
                key = (op.outputs[0].tensor, slots[parts[0]])
                part = op.parts[parts[0]]
                yield _CausalRows(op.name, part.name, part.size, self.classes.find(key))

    def _check_tensor(self, name: str, k: int) -> None:
        info = self.problem.tensors[name]
        slot = info.slots[k]
        if info.tensor.role in ("parameter", "cache"):
            raise _order_error(f"dim {slot.dim} of {info.tensor.role} {name!r} is part of it")
        if slot.dim in info.segments or (info.is_free and slot.size != info.shape[slot.dim]):
            raise _order_error(f"it is no dim of its own in {name!r}")

    def _uses(self, op: OpInfo, numbers: Mapping[SlotKey, int]) -> Iterator[_Use]:
        """Uses of sequences by an op. Raises SetupError where the op needs the original order."""
        anywhere = _orderless_factors(op)
        masks = op.known.skewed if op.known is not None else ()
        for port in self._ports(op):
            parts = {slot: part for part, slot in port.slot_of.items()}
            for k in range(len(self.problem.tensors[port.tensor].slots)):
                number = numbers.get(self.classes.find((port.tensor, k)))
                if number is None:
                    continue
                part = parts.get(k)
                if part is not None and op.parts[part].factor in anywhere:
                    yield _Use(number, part, bool(masks))
                    continue
                # the op depends on data alone, so that every device can run it whole
                is_whole = part is None or not op.parts[part].shardable
                if not (is_whole and self.data.issuperset(op.op.inputs)):
                    raise _order_error(
                        f"op {op.name!r} ({op.op.kind}) needs {port.tensor!r} in the order of its "
                        "positions"
                    )
                info = self.problem.tensors[port.tensor]
                slot = info.slots[k]
                if slot.size != info.shape[slot.dim]:
                    raise _order_error(f"it is no dim of its own in {port.tensor!r}")
                turned = LoadedDim(tensor=port.tensor, dim=slot.dim)
                yield _Use(number, part, cares=True, turned=turned)

    def _constant_dims(
        self, op: OpInfo, numbers: Mapping[SlotKey, int]
    ) -> Iterator[tuple[int, LoadedDim]]:
        """Dims of constants that an op reads in the order of a sequence."""
        number_of = {use.part: use.number for use in self._uses(op, numbers)}
        for port in op.inputs:
            info = self.problem.tensors[port.tensor]
            for part, k in port.slot_of.items() if info.constant else ():
                if part in number_of:
                    slot = info.slots[k]
                    if slot.size != info.shape[slot.dim]:
                        raise _order_error(f"it is no dim of its own in {port.tensor!r}")
                    yield number_of[part], LoadedDim(tensor=port.tensor, dim=slot.dim)


@dataclass(frozen=True, slots=True)
class _CausalRows:
    """Rows of a causal mask: a part of an op, and the class of its slots."""

    op: str
    part: str
    size: int
    root: SlotKey


@dataclass(frozen=True, slots=True)
class _Use:
    """The use of a sequence by an op, as a part or as none.

    cares: the op uses true positions. turned: the dim that is permuted, of a tensor that depends on
    data alone.
    """

    number: int
    part: int | None
    cares: bool
    turned: LoadedDim | None = None


def _orderless_factors(op: OpInfo) -> frozenset[Factor]:
    """Factors of an op whose order does not matter; none for ops with a user's rule."""
    if op.known is None or op.op.rule is not None:
        return frozenset()
    return in_any_order(op.op.kind, op.known.rule.parsed, op.op.attrs)


def _has_mask(op: OpInfo) -> bool:
    """Whether attention has a mask with rows or keys besides its causal mask."""
    count = len(op.op.inputs) - bool(op.op.attrs.get("sinks"))
    return op.op.kind == "attention" and count > 3 and bool(op.inputs[3].slot_of)


def _order_error(why: str) -> SetupError:
    return SetupError(
        f"the sequence cannot be loaded in another order: {why}. Use sequence_order contiguous",
        pointer="/sequence_order",
    )
