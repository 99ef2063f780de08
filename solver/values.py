"""Values: tensors with their views, and which of their slots are worth sharding.

A slot is shardable where the op that makes the value and an op that reads it can both put an axis
there; in a dim that has no such slot, where either can (experts, which dispatch makes whole and
expert products shard: an all-to-all lies between). Inputs, labels and constants are *free*: every
device can load or make any part of them, so that they take whatever layout is asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from solver.op_info import OpInfo, Port
from solver.problem import Problem

Reader = tuple[int, int]  # position of the op, of its input


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor with all its views.

    slot_of: tensor -> its slot -> the root's slot. slots: the root's shardable slots.
    readers: ops that read any of the tensors, views left out. saved_by_producer, saving: who needs
    the value in the backward pass.
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

    @property
    def is_saved(self) -> bool:
        return self.saved_by_producer or bool(self.saving)


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a problem. views: positions of ops that only view. shardable: parts by op."""

    values: tuple[Value, ...]
    value_of: Mapping[str, Value]
    views: frozenset[int]
    shardable: tuple[frozenset[int], ...]


def find_values(problem: Problem) -> Values:
    """Group tensors into values; a fixed point of which slots and parts are shardable."""
    counts = {len(info.slots) for info in problem.tensors.values()}
    same = {count: {k: k for k in range(count)} for count in counts}
    roots: dict[str, tuple[str, Mapping[int, int]]] = {
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
    for position, op in enumerate(problem.ops):
        if position in views:
            continue
        for k, port in enumerate(op.outputs):
            producers[port.tensor] = (position, k)
        for k, port in enumerate(op.inputs):
            readers[roots[port.tensor][0]].append((position, k))
    alike: dict[int, set[int]] = {}  # ops of equal parts share the tuple of them
    for op in problem.ops:
        if id(op.parts) not in alike:
            alike[id(op.parts)] = _parts_with_axes(op)
    parts = [
        set() if position in views else set(alike[id(op.parts)])
        for position, op in enumerate(problem.ops)
    ]
    shardable = _Shardable(problem, roots, producers, readers, parts)
    shardable.solve()
    slots = shardable.slots
    values = []
    for root, names in members.items():
        info = problem.tensors[root]
        is_parameter = info.tensor.role == "parameter"
        values.append(
            Value(
                root,
                names,
                _with_largest(slots[root], problem, root) if is_parameter else slots[root],
                producers.get(root),
                tuple(readers[root]),
                _is_free(problem, root),
                is_parameter,
                root in producers and _saves_output(problem, producers[root]),
                frozenset(reader for reader in readers[root] if _saves_input(problem, reader)),
            )
        )
    return Values(
        tuple(values),
        {name: value for value in values for name in value.slot_of},
        frozenset(views),
        tuple(frozenset(own) for own in parts),
    )


def _parts_with_axes(op: OpInfo) -> set[int]:
    """Parts on which axes can lie, by themselves or with a part that they follow."""
    own = {j for j, part in enumerate(op.parts) if part.shardable or part.may_follow}
    return own - _without_leaders(op, own)


def _without_leaders(op: OpInfo, parts: set[int]) -> set[int]:
    """Those of `parts` that axes reach only with a part that they follow, and none is there."""
    left = {op.parts[j].factor for j in parts}
    return {
        j for j in parts if not op.parts[j].shardable and left.isdisjoint(op.parts[j].may_follow)
    }


def _with_largest(slots: tuple[int, ...], problem: Problem, root: str) -> tuple[int, ...]:
    """A parameter can rest sharded on its largest slot even where no reader shards it."""
    sizes = [slot.size for slot in problem.tensors[root].slots]
    if not sizes:
        return slots
    largest = max(range(len(sizes)), key=lambda k: (sizes[k], -k))
    return tuple(sorted({*slots, largest}))


def _is_free(problem: Problem, root: str) -> bool:
    info = problem.tensors[root]
    return info.constant or info.tensor.role in ("input", "label")


def _is_view(problem: Problem, op: OpInfo) -> bool:
    """Whether the op renames slots one to one and changes nothing else."""
    if op.known is None or op.known.op_class != "view":
        return False
    given, made = op.inputs[0], op.outputs[0]
    a, b = problem.tensors[given.tensor], problem.tensors[made.tensor]
    return (
        a.tensor.dtype == b.tensor.dtype
        and set(given.slot_of) == set(made.slot_of)
        and sorted(given.slot_of.values()) == list(range(len(a.slots)))
        and sorted(made.slot_of.values()) == list(range(len(b.slots)))
    )


@dataclass(slots=True)
class _Shardable:
    """The fixed point of slots and parts: what changes in one value wakes the ops around it."""

    problem: Problem
    roots: Mapping[str, tuple[str, Mapping[int, int]]]
    producers: Mapping[str, Reader]
    readers: Mapping[str, list[Reader]]
    parts: list[set[int]]
    slots: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def solve(self) -> None:
        waiting = OrderedDict.fromkeys(self.readers)
        while waiting:
            root, _ = waiting.popitem(last=False)
            self.slots[root] = self._wanted(root)
            if _is_free(self.problem, root):
                continue
            around = [position for position, _ in self.readers[root]]
            around += [self.producers[root][0]] if root in self.producers else []
            for position in around:
                for other in self._give_up(position, root):
                    waiting[other] = None

    def _wanted(self, root: str) -> tuple[int, ...]:
        ops = self.problem.ops
        wanted = {
            slot
            for position, k in self.readers[root]
            for slot in self._slots_at(position, ops[position].inputs[k])
        }
        if root not in self.producers:
            return tuple(sorted(wanted))
        position, k = self.producers[root]
        made = self._slots_at(position, ops[position].outputs[k])
        dims: dict[int, set[int]] = {}
        for slot in wanted | made:
            dims.setdefault(self.problem.tensors[root].slots[slot].dim, set()).add(slot)
        kept = [(own & wanted & made) or own for own in dims.values()]
        return tuple(sorted(set().union(*kept)))

    def _slots_at(self, position: int, port: Port) -> set[int]:
        mapping = self.roots[port.tensor][1]
        return {mapping[s] for part, s in port.slot_of.items() if part in self.parts[position]}

    def _give_up(self, position: int, root: str) -> set[str]:
        """Drop the parts whose slot in `root` is not shardable; the values this touches."""
        op = self.problem.ops[position]
        lost = set()
        for port in (*op.inputs, *op.outputs):
            if self.roots[port.tensor][0] != root:
                continue
            mapping = self.roots[port.tensor][1]
            lost |= {
                part
                for part, slot in port.slot_of.items()
                if part in self.parts[position] and mapping[slot] not in self.slots[root]
            }
        if not lost:
            return set()
        self.parts[position] -= lost
        self.parts[position] -= _without_leaders(op, self.parts[position])
        return {self.roots[port.tensor][0] for port in (*op.inputs, *op.outputs)}


def _saves_input(problem: Problem, reader: Reader) -> bool:
    op = problem.ops[reader[0]]
    if not _runs_backward(problem, op):
        return False
    if op.known is None:
        return True
    rule = op.known.rule
    if rule.saves_inputs is not None and reader[1] not in rule.saves_inputs:
        return False
    if not rule.linear:
        return True
    # a product needs one operand only for the gradient of another
    own = next((group for group in rule.linear if reader[1] in group), ())
    return any(
        problem.tensors[port.tensor].has_gradient
        for k, port in enumerate(op.inputs)
        if k != reader[1] and k not in own
    )


def _saves_output(problem: Problem, producer: Reader) -> bool:
    op = problem.ops[producer[0]]
    return (
        op.known is not None
        and producer[1] in op.known.rule.saves_outputs
        and _runs_backward(problem, op)
    )


def _runs_backward(problem: Problem, op: OpInfo) -> bool:
    return any(problem.tensors[port.tensor].has_gradient for port in op.outputs)
