"""Where in a graph the tokens of the busiest expert count.

From dispatch to combine, weights left out. Room that is not the mean of what is sent there is a
capacity: tokens beyond it are dropped, and all of it is computed on, whoever asks for the expert.
Rows in runs of one expert each (`grouped_matmul`, `ffn`) lie anywhere; only their arithmetic is
that of a device's experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from meshwright.schema import SetupError
from meshwright_costmodel.expert_imbalance import ExpertLoad
from meshwright_solver.common.union_find import Classes
from meshwright_solver.problem.op_info import OpInfo, TensorInfo
from meshwright_solver.problem.uneven import Key
from meshwright_solver.rules.op_knowledge import RECEIVE

DISPATCH, COMBINE = "moe_dispatch", "moe_combine"
_RUNS = {"grouped_matmul": 1, "ffn": 1}  # the input with a dim of experts


@dataclass(frozen=True)
class ExpertLoads:
    """How many experts a slot of a tensor is (by name, slot), or a part of an op (by position)."""

    imbalance: float = 1.0
    experts: Mapping[Key, int] = field(default_factory=dict)

    def of_slots(self, tensor: str, slots: Sequence[int]) -> ExpertLoad | None:
        """Of a tensor, by places among these slots; None where none of them is experts."""
        return self._of([(tensor, slot) for slot in slots]) if self.experts else None

    def of_parts(self, position: int, parts: int) -> ExpertLoad | None:
        """Of an op of so many parts; None where none of them is experts."""
        return self._of([(position, part) for part in range(parts)]) if self.experts else None

    def _of(self, keys: Sequence[Key]) -> ExpertLoad | None:
        on = tuple([place for place, key in enumerate(keys) if key in self.experts])
        return ExpertLoad(on, self.experts[keys[on[0]]], self.imbalance) if on else None


EVEN = ExpertLoads()


def expert_loads(
    ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo], imbalance: float
) -> ExpertLoads:
    """The slots and parts of a problem that are experts whose tokens are not spread evenly."""
    if imbalance == 1:
        return EVEN
    classes: Classes[Key] = Classes()
    rooms: dict[Key, int] = {}
    experts: dict[Key, int] = {}
    tokens = _tokens(ops, tensors)
    for position, op in enumerate(ops):
        kind = op.op.kind
        if kind in (DISPATCH, COMBINE):
            room = (op.outputs if kind == DISPATCH else op.inputs)[0].tensor
            which = op.inputs[1].tensor
            if is_mean_room(tensors[room].shape, tensors[which].shape):
                for slot, own in enumerate(tensors[room].slots):
                    if own.dim == 0:
                        rooms[room, slot] = tensors[room].shape[0]
            continue
        for port in (*op.inputs, *op.outputs):
            if port.tensor in tokens:
                for part, slot in port.slot_of.items():
                    classes.join((position, part), (port.tensor, slot))
        experts.update(_runs(position, op, tensors))
    counts = {classes.find(key): count for key, count in rooms.items()}
    for key in list(classes.parent):
        count = counts.get(classes.find(key))
        if count is not None:
            experts[key] = count
    return ExpertLoads(imbalance, experts)


def is_mean_room(room: Sequence[int], which: Sequence[int]) -> bool:
    """Whether experts have room [e, b, c, h] for just the tokens' choices [b, s, k], on the mean;
    c is a whole number."""
    return abs(room[0] * room[2] - which[1] * which[2]) < room[0]


def _runs(
    position: int, op: OpInfo, tensors: Mapping[str, TensorInfo]
) -> Iterator[tuple[Key, int]]:
    port = _RUNS.get(op.op.kind)
    if port is None or len(tensors[op.inputs[port].tensor].shape) < 3:
        return
    weights = op.inputs[port]
    info = tensors[weights.tensor]
    for part, slot in weights.slot_of.items():
        if info.slots[slot].dim == 0:
            yield (position, part), info.shape[0]


def _tokens(ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo]) -> frozenset[str]:
    """What depends on an input, or comes from another stage: all but weights and constants."""
    found = {name for name, info in tensors.items() if info.tensor.role in ("input", "label")}
    for op in ops:
        if op.op.kind == RECEIVE or any(port.tensor in found for port in op.inputs):
            found.update(port.tensor for port in op.outputs)
    return frozenset(found)


def check_experts(
    ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo], imbalance: float
) -> None:
    """Raise SetupError where an imbalance of experts is stated of a graph that has none."""
    if imbalance == 1 or any(op.op.kind == DISPATCH for op in ops):
        return
    if not any(True for k, op in enumerate(ops) for _ in _runs(k, op, tensors)):
        raise SetupError(
            f"expert_imbalance {imbalance:g} says how unevenly experts are asked for, the graph "
            f"has no experts (no op of kind {', '.join(sorted((DISPATCH, *_RUNS)))}); 1 would do",
            pointer="/expert_imbalance",
        )
