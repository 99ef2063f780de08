"""Values: tensors with their views, and their shardable slots.

Inputs, labels and constants are *free*: every device can load or make any part of them, so that
every reader gets the layout that it needs. `meshwright_solver.problem.shardable_slots` finds the
shardable slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.problem.low_precision import (
    NO_LOW_PRECISION,
    LowPrecision,
    in_eight_bits,
    low_precision_products,
)
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.saved_tensors import saves_of
from meshwright_solver.problem.shardable_slots import Reader, Root, Shardable
from meshwright_solver.problem.weight_casts import weight_casts


@dataclass(frozen=True, slots=True)
class ProblemValue:
    """A tensor with all its views.

    slot_of: tensor -> its slot -> the root's slot. slots: the root's shardable slots. readers: ops
    that read any of the tensors, without views.

    saved_by_producer, saving: the producer and readers that need the value for gradients. again:
    readers in the backward pass, those of `saving` and recomputed ops. is_remade: all of `again`
    read a recomputed value. is_parameter: it rests between steps, as a cache does.
    """

    root: str
    slot_of: Mapping[str, Mapping[int, int]]
    slots: tuple[int, ...]
    producer: Reader | None
    readers: tuple[Reader, ...]
    is_free: bool
    is_parameter: bool
    saved_by_producer: bool
    saving: frozenset[Reader]
    again: frozenset[Reader]
    is_remade: bool
    kept: BackwardNeed = field(init=False)

    def __post_init__(self) -> None:
        wanted = self.saved_by_producer or bool(self.again)
        need = BackwardNeed(
            wanted, self.saved_by_producer, bool(self.saving), bool(self.again), self.is_remade
        )
        object.__setattr__(self, "kept", need)


# whether readers save a value at rest and gather it again in the backward pass
Again = Literal["never", "may", "always"]


class BackwardNeed(NamedTuple):
    """Needs of the backward pass for a value.

    wanted: any op needs it. at_rest: the producer needs it for gradients; as_read: readers do.
    again: readers read it once more, for gradients or recomputation. is_remade: it is recomputed at
    rest and not saved.
    """

    wanted: bool
    at_rest: bool
    as_read: bool
    again: bool
    is_remade: bool

    @property
    def is_at_hand(self) -> bool:
        """Whether the backward pass has the value at rest, for any choice of its readers."""
        return self.at_rest or self.is_remade

    @property
    def is_held(self) -> bool:
        """Whether the value is saved at rest, for any choice of its readers."""
        return self.at_rest and not self.is_remade


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a problem. views: positions of view ops.

    By op: shardable: its shardable parts. saved_inputs: the inputs that its backward pass needs.
    looks: its look, as `Shardable` numbers it. weight_casts: positions of casts of parameters.
    low_precision: the products in 8 bits, and the values that travel or are saved in 8 bits.
    """

    values: tuple[ProblemValue, ...]
    value_of: Mapping[str, ProblemValue]
    views: frozenset[int]
    shardable: tuple[frozenset[int], ...]
    saved_inputs: tuple[tuple[int, ...], ...]
    looks: tuple[int, ...]
    weight_casts: frozenset[int]
    low_precision: LowPrecision = NO_LOW_PRECISION


@uncollected
def find_values(problem: Problem) -> Values:
    """Group tensors into values, and find the shardable slots and parts."""
    counts = {len(info.slots) for info in problem.tensors.values()}
    same = {count: {k: k for k in range(count)} for count in counts}
    roots: dict[str, Root] = {
        name: (name, same[len(info.slots)]) for name, info in problem.tensors.items()
    }
    views = set()
    for position, op in enumerate(problem.ops):
        if _is_view(problem, op):
            views.add(position)
            source, view = op.inputs[0], op.outputs[0]
            root, to_root = roots[source.tensor]
            back = {slot: part for part, slot in view.slot_of.items()}
            roots[view.tensor] = (
                root,
                {slot: to_root[source.slot_of[part]] for slot, part in back.items()},
            )
    members: dict[str, dict[str, Mapping[int, int]]] = {}
    for name, (root, mapping) in roots.items():
        members.setdefault(root, {})[name] = mapping
    producers: dict[str, Reader] = {}
    readers: dict[str, list[Reader]] = {root: [] for root in members}
    saves = saves_of(problem, frozenset(views), {name: root for name, (root, _) in roots.items()})
    saved: set[str] = set()
    saving: dict[str, list[Reader]] = {}
    for position, (op, op_saves) in enumerate(zip(problem.ops, saves, strict=True)):
        if position in views:
            continue
        for k, port in enumerate(op.outputs):
            producers[port.tensor] = (position, k)
        for k, port in enumerate(op.inputs):
            readers[roots[port.tensor][0]].append((position, k))
        saved.update([op.outputs[k].tensor for k in op_saves.outputs])
        for k in op_saves.inputs:
            saving.setdefault(roots[op.inputs[k].tensor][0], []).append((position, k))
    shardable = Shardable(problem, roots, producers, readers, frozenset(views))
    values = []
    for root, names in members.items():
        info = problem.tensors[root]
        is_parameter = info.tensor.role in ("parameter", "cache")
        slots, producer = shardable.slots[root], producers.get(root)
        again, is_remade = _backward_readers(problem, producer, readers[root], saving.get(root, ()))
        values.append(
            ProblemValue(
                root=root,
                slot_of=names,
                slots=_with_largest(slots, problem, root) if is_parameter else slots,
                producer=producer,
                readers=tuple(readers[root]),
                is_free=info.is_free,
                is_parameter=is_parameter,
                saved_by_producer=root in saved,
                saving=frozenset(saving.get(root, ())),
                again=again,
                is_remade=is_remade,
            )
        )
    return Values(
        tuple(values),
        {name: value for value in values for name in value.slot_of},
        frozenset(views),
        tuple(shardable.parts),
        tuple([op_saves.inputs for op_saves in saves]),
        tuple(shardable.looks),
        weight_casts(problem),
        _low_precision(problem, values, {name: root for name, (root, _) in roots.items()}),
    )


def _low_precision(
    problem: Problem, values: Sequence[ProblemValue], root_of: Mapping[str, str]
) -> LowPrecision:
    products = low_precision_products(problem, root_of)
    if not products:
        return NO_LOW_PRECISION
    sent = [value.root for value in values if in_eight_bits(products, value.readers)]
    saved = [
        value.root
        for value in values
        if not value.is_parameter
        and not value.saved_by_producer
        and in_eight_bits(products, value.again)
    ]
    return LowPrecision(products, frozenset(sent), frozenset(saved))


def _backward_readers(
    problem: Problem,
    producer: Reader | None,
    readers: Sequence[Reader],
    saving: Sequence[Reader],
) -> tuple[frozenset[Reader], bool]:
    """Readers of a value in the backward pass, and whether all of them read a recomputed value."""
    if not problem.remade:
        return frozenset(saving), False

    remade = problem.remade

    def name(reader: Reader) -> str:
        return problem.ops[reader[0]].name

    again = {*saving, *(reader for reader in readers if name(reader) in remade.again)}
    if producer is None or name(producer) not in remade.again:
        return frozenset(again), False
    segment = remade.segment_of[name(producer)]
    return frozenset(again), all(remade.segment_of.get(name(r)) == segment for r in again)


def _with_largest(slots: tuple[int, ...], problem: Problem, root: str) -> tuple[int, ...]:
    """The slots and a parameter's largest, on which it can rest sharded without such a reader."""
    sizes = [slot.size for slot in problem.tensors[root].slots]
    if not sizes:
        return slots
    largest = max(range(len(sizes)), key=lambda k: (sizes[k], -k))
    return slots if largest in slots else tuple(sorted({*slots, largest}))


def _is_view(problem: Problem, op: OpInfo) -> bool:
    """Whether the op is a view: it maps slots one to one and changes nothing else."""
    if op.known is None or op.known.op_class != "view" or len(op.inputs) != 1:
        return False
    source, view = op.inputs[0], op.outputs[0]
    a, b = problem.tensors[source.tensor], problem.tensors[view.tensor]
    return (
        a.tensor.dtype == b.tensor.dtype
        and set(source.slot_of) == set(view.slot_of)
        and sorted(source.slot_of.values()) == list(range(len(a.slots)))
        and sorted(view.slot_of.values()) == list(range(len(b.slots)))
    )
