"""Shardable slots: a fixed point over the slots of values and the parts of ops.

A slot is shardable if the producer and a reader of the value can both put an axis on it. In a dim
without such a slot, one of them is enough: dispatch makes experts whole and expert products shard
them, with an all-to-all between. An op drops the parts whose slots are not shardable, which may
remove slots of other values.

The slots of a value are computed once for each combination of its own slots and the looks of its
producer and readers. Two ops have the same look if they have the same parts on the same slots
(`op_infos` keeps one object of each) and the same remaining parts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.problem.problem import Problem

Reader = tuple[int, int]  # position of the op, index of its input
Root = tuple[str, Mapping[int, int]]  # root of a tensor, slot -> the root's slot


class _ValueSlots(NamedTuple):
    """The shardable slots of a value. is_settled: no producer or reader drops parts for them."""

    slots: tuple[int, ...]
    is_settled: bool


class Shardable:
    """The fixed point. slots: root -> its shardable slots. parts: of every op, none of views.

    looks: numbers of ops by position, equal for equal rules, parts on equal slots and equal
    remaining parts.
    """

    def __init__(
        self,
        problem: Problem,
        roots: Mapping[str, Root],
        producers: Mapping[str, Reader],
        readers: Mapping[str, Sequence[Reader]],
        views: frozenset[int],
    ) -> None:
        self.problem = problem
        self.roots = roots
        self.producers = producers
        self.readers = readers
        self.slots: dict[str, tuple[int, ...]] = {}
        self.parts: list[frozenset[int]] = []
        self._roots_of_views = {root for name, (root, _) in roots.items() if name != root}
        self.looks: list[int] = []
        self._key_of = IdentityKeys()
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, _ValueSlots] = {}
        alike: dict[IdentityKey, frozenset[int]] = {}  # ops of equal parts share the tuple of them
        for position, op in enumerate(problem.ops):
            key = self._key_of(op.parts)
            if key not in alike:
                alike[key] = _parts_with_axes(op)
            self.parts.append(_NONE if position in views else alike[key])
            self.looks.append(self._look(position))
        self._solve()

    def _look(self, position: int) -> int:
        op = self.problem.ops[position]
        ports = self._key_of.each([port.slot_of for port in (*op.inputs, *op.outputs)])
        key = (
            self._key_of(op.known),
            self._key_of(op.parts),
            len(op.inputs),
            *ports,
            self.parts[position],
        )
        return self._numbers.setdefault(key, len(self._numbers))

    def _solve(self) -> None:
        waiting = OrderedDict.fromkeys(self.readers)
        while waiting:
            root, _ = waiting.popitem(last=False)
            value_slots = self._value_slots(root)
            self.slots[root] = value_slots.slots
            if value_slots.is_settled:
                continue
            for position in self._ops_around(root):
                for other in self._drop_parts(position, root):
                    waiting[other] = None

    def _ops_around(self, root: str) -> list[int]:
        around = [position for position, _ in self.readers[root]]
        return [*around, self.producers[root][0]] if root in self.producers else around

    def _value_slots(self, root: str) -> _ValueSlots:
        if root in self._roots_of_views:
            return _ValueSlots(self._shardable_slots(root), False)
        info, looks, producer = self.problem.tensors[root], self.looks, self.producers.get(root)
        key: list[object] = [self._key_of(info.slots), info.is_free]
        key += (looks[producer[0]], producer[1]) if producer is not None else (None, None)
        for position, k in self.readers[root]:
            key += (looks[position], k)
        content = tuple(key)
        value_slots = self._known.get(content)
        if value_slots is None:
            slots = self._shardable_slots(root)
            loses = not info.is_free and any(
                self._parts_without_slots(position, root, slots)
                for position in self._ops_around(root)
            )
            value_slots = self._known[content] = _ValueSlots(slots, not loses)
        return value_slots

    def _shardable_slots(self, root: str) -> tuple[int, ...]:
        ops = self.problem.ops
        wanted = {
            slot
            for position, k in self.readers[root]
            for slot in self._slots_at(position, ops[position].inputs[k])
        }
        if root not in self.producers:
            return tuple(sorted(wanted))
        position, k = self.producers[root]
        producible = self._slots_at(position, ops[position].outputs[k])
        dims: dict[int, set[int]] = {}
        for slot in wanted | producible:
            dims.setdefault(self.problem.tensors[root].slots[slot].dim, set()).add(slot)
        dim_choices = [
            (dim_slots & wanted & producible) or dim_slots for dim_slots in dims.values()
        ]
        return tuple(sorted(set().union(*dim_choices)))

    def _slots_at(self, position: int, port: OpPort) -> set[int]:
        mapping = self.roots[port.tensor][1]
        return {mapping[s] for part, s in port.slot_of.items() if part in self.parts[position]}

    def _parts_without_slots(self, position: int, root: str, slots: tuple[int, ...]) -> set[int]:
        """The parts of an op whose slot in `root` is not in `slots`."""
        op, lost = self.problem.ops[position], set()
        for port in (*op.inputs, *op.outputs):
            own_root, mapping = self.roots[port.tensor]
            if own_root == root:
                lost |= {
                    part
                    for part, slot in port.slot_of.items()
                    if part in self.parts[position] and mapping[slot] not in slots
                }
        return lost

    def _drop_parts(self, position: int, root: str) -> set[str]:
        """Drop the parts of an op without shardable slots; return the values to visit again."""
        if self.problem.tensors[root].is_free:
            return set()
        lost = self._parts_without_slots(position, root, self.slots[root])
        if not lost:
            return set()
        op = self.problem.ops[position]
        remaining = self.parts[position] - lost
        self.parts[position] = remaining - _without_leaders(op, remaining)
        self.looks[position] = self._look(position)
        return {self.roots[port.tensor][0] for port in (*op.inputs, *op.outputs)}


_NONE: frozenset[int] = frozenset()


def _parts_with_axes(op: OpInfo) -> frozenset[int]:
    """Parts that axes can shard, directly or as followers."""
    parts = frozenset(j for j, part in enumerate(op.parts) if part.shardable or part.may_follow)
    return parts - _without_leaders(op, parts)


def _without_leaders(op: OpInfo, parts: frozenset[int]) -> set[int]:
    """Followers in `parts` without any of the factors that they may follow."""
    factors = {op.parts[j].factor for j in parts}
    return {
        j for j in parts if not op.parts[j].shardable and factors.isdisjoint(op.parts[j].may_follow)
    }
