"""Expert dims: the slots and parts of a graph to which expert imbalance applies.

These are the dims of experts between dispatch and combine, without weights. Expert buffers larger
or smaller than the mean number of tokens have a fixed capacity: excess tokens are dropped and the
whole buffer is computed on, so that imbalance has no effect. In `grouped_matmul` and `ffn`, whose
rows are grouped by expert, imbalance applies to the arithmetic alone.
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
_RUNS = {"grouped_matmul": 1, "ffn": 1}  # kind -> the input with a dim of experts


@dataclass(frozen=True)
class ExpertLoads:
    """Number of experts of each expert slot (tensor, slot) and expert part (position, part)."""

    imbalance: float = 1.0
    experts: Mapping[Key, int] = field(default_factory=dict)

    def of_slots(self, tensor: str, slots: Sequence[int]) -> ExpertLoad | None:
        """The load of a tensor, by places among `slots`; None where no slot is of experts."""
        return self._of([(tensor, slot) for slot in slots]) if self.experts else None

    def of_parts(self, position: int, parts: int) -> ExpertLoad | None:
        """The load of an op with `parts` parts; None where no part is of experts."""
        return self._of([(position, part) for part in range(parts)]) if self.experts else None

    def _of(self, keys: Sequence[Key]) -> ExpertLoad | None:
        on = tuple([place for place, key in enumerate(keys) if key in self.experts])
        return ExpertLoad(on, self.experts[keys[on[0]]], self.imbalance) if on else None


EVEN = ExpertLoads()


def routed_tokens(ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo]) -> dict[str, int]:
    """Tensors that dispatches make and combinations read -> the chosen experts of a token."""
    found = {}
    for op in ops:
        if op.op.kind in (DISPATCH, COMBINE):
            port = (op.outputs if op.op.kind == DISPATCH else op.inputs)[0]
            found[port.tensor] = tensors[op.inputs[1].tensor].shape[-1]
    return found


def expert_loads(
    ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo], imbalance: float
) -> ExpertLoads:
    """The expert slots and parts of a problem with uneven loads."""
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
                for slot, info in enumerate(tensors[room].slots):
                    if info.dim == 0:
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
    """Whether expert buffers [e, b, c, h] hold the mean number of choices [b, s, k], rounded to a
    whole c."""
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
    """Tensors that depend on an input or come from another stage: all but weights and constants."""
    names = {name for name, info in tensors.items() if info.tensor.role in ("input", "label")}
    for op in ops:
        if op.op.kind == RECEIVE or any(port.tensor in names for port in op.inputs):
            names.update(port.tensor for port in op.outputs)
    return frozenset(names)


def check_experts(
    ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo], imbalance: float
) -> None:
    """Raise SetupError where the setup has an expert imbalance and the graph has no experts."""
    if imbalance == 1 or any(op.op.kind == DISPATCH for op in ops):
        return
    if not any(True for k, op in enumerate(ops) for _ in _runs(k, op, tensors)):
        raise SetupError(
            f"expert_imbalance is {imbalance:g}, but the graph has no experts (no op of kind "
            f"{', '.join(sorted((DISPATCH, *_RUNS)))}). Use 1",
            pointer="/expert_imbalance",
        )
