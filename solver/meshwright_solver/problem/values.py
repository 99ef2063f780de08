"""Values: tensors with their views, and which of their slots are worth sharding.

Inputs, labels and constants are *free*: every device can load or make any part of them, so that
they take whatever layout is asked for. `meshwright_solver.problem.shardable_slots` says what is
worth sharding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.saved_tensors import saves_of
from meshwright_solver.problem.shardable_slots import Reader, Root, Shardable


@dataclass(frozen=True, slots=True)
class ProblemValue:
    """A tensor with all its views.

    slot_of: tensor -> its slot -> the root's slot. slots: the root's shardable slots.
    readers: ops that read any of the tensors, views left out. saved_by_producer, saving: who needs
    the value for its gradients. again: readers that get it once more in the backward pass, these
    and those that are done again. is_remade: its producer is done again in time for all of them.
    is_parameter: it rests between steps, as a cache does.
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
        kept = BackwardNeed(
            wanted, self.saved_by_producer, bool(self.saving), bool(self.again), self.is_remade
        )
        object.__setattr__(self, "kept", kept)


class BackwardNeed(NamedTuple):
    """What the backward pass needs of a value.

    wanted: whether anybody needs it there. at_rest: whether its producer does, for gradients;
    as_read: whether readers do. again: whether readers get it once more, for gradients or as they
    are done again. is_remade: at rest it is made again, and not saved.
    """

    wanted: bool
    at_rest: bool
    as_read: bool
    again: bool
    is_remade: bool

    @property
    def is_at_hand(self) -> bool:
        """Whether the value at rest is there, whatever its readers do."""
        return self.at_rest or self.is_remade

    @property
    def is_held(self) -> bool:
        """Whether it is saved at rest, whatever its readers do."""
        return self.at_rest and not self.is_remade


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a problem. views: positions of ops that only view.

    By op: the parts that are shardable; which inputs it needs in its backward pass; its look,
    as `Shardable` numbers it.
    """

    values: tuple[ProblemValue, ...]
    value_of: Mapping[str, ProblemValue]
    views: frozenset[int]
    shardable: tuple[frozenset[int], ...]
    saved_inputs: tuple[tuple[int, ...], ...]
    looks: tuple[int, ...]


@uncollected
def find_values(problem: Problem) -> Values:
    """Group tensors into values; a fixed point of which slots and parts are shardable."""
    counts = {len(info.slots) for info in problem.tensors.values()}
    same = {count: {k: k for k in range(count)} for count in counts}
    roots: dict[str, Root] = {
        name: (name, same[len(info.slots)]) for name, info in problem.tensors.items()
    }
    views = set()
    for position, op in enumerate(problem.ops):
        if _is_view(problem, op):
            views.add(position)
            given, made = op.inputs[0], op.outputs[0]
            root, to_root = roots[given.tensor]
            back = {slot: part for part, slot in made.slot_of.items()}
            roots[made.tensor] = (
                root,
                {slot: to_root[given.slot_of[part]] for slot, part in back.items()},
            )
    members: dict[str, dict[str, Mapping[int, int]]] = {}
    for name, (root, mapping) in roots.items():
        members.setdefault(root, {})[name] = mapping
    producers: dict[str, Reader] = {}
    readers: dict[str, list[Reader]] = {root: [] for root in members}
    saves = saves_of(problem, frozenset(views), {name: root for name, (root, _) in roots.items()})
    saved: set[str] = set()
    saving: dict[str, list[Reader]] = {}
    for position, (op, own) in enumerate(zip(problem.ops, saves, strict=True)):
        if position in views:
            continue
        for k, port in enumerate(op.outputs):
            producers[port.tensor] = (position, k)
        for k, port in enumerate(op.inputs):
            readers[roots[port.tensor][0]].append((position, k))
        saved.update([op.outputs[k].tensor for k in own.outputs])
        for k in own.inputs:
            saving.setdefault(roots[op.inputs[k].tensor][0], []).append((position, k))
    shardable = Shardable(problem, roots, producers, readers, frozenset(views))
    values = []
    for root, names in members.items():
        info = problem.tensors[root]
        is_parameter = info.tensor.role in ("parameter", "cache")
        slots, producer = shardable.slots[root], producers.get(root)
        again, is_remade = _again(problem, producer, readers[root], saving.get(root, ()))
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
        tuple([own.inputs for own in saves]),
        tuple(shardable.looks),
    )


def _again(
    problem: Problem,
    producer: Reader | None,
    readers: Sequence[Reader],
    saving: Sequence[Reader],
) -> tuple[frozenset[Reader], bool]:
    """Who gets a value once more, and whether it is made again in time for all of them."""
    if not problem.remade:
        return frozenset(saving), False

    remade = problem.remade

    def name(reader: Reader) -> str:
        return problem.ops[reader[0]].name

    again = {*saving, *(reader for reader in readers if name(reader) in remade.again)}
    if producer is None or name(producer) not in remade.again:
        return frozenset(again), False
    own = remade.segment_of[name(producer)]
    return frozenset(again), all(remade.segment_of.get(name(r)) == own for r in again)


def _with_largest(slots: tuple[int, ...], problem: Problem, root: str) -> tuple[int, ...]:
    """A parameter can rest sharded on its largest slot even where no reader shards it."""
    sizes = [slot.size for slot in problem.tensors[root].slots]
    if not sizes:
        return slots
    largest = max(range(len(sizes)), key=lambda k: (sizes[k], -k))
    return slots if largest in slots else tuple(sorted({*slots, largest}))


def _is_view(problem: Problem, op: OpInfo) -> bool:
    """Whether the op renames slots one to one and changes nothing else."""
    if op.known is None or op.known.op_class != "view" or len(op.inputs) != 1:
        return False
    given, made = op.inputs[0], op.outputs[0]
    a, b = problem.tensors[given.tensor], problem.tensors[made.tensor]
    return (
        a.tensor.dtype == b.tensor.dtype
        and set(given.slot_of) == set(made.slot_of)
        and sorted(given.slot_of.values()) == list(range(len(a.slots)))
        and sorted(made.slot_of.values()) == list(range(len(b.slots)))
    )
