"""What is worth sharding: a fixed point over the slots of values and the parts of ops.

A slot is shardable where the op that makes the value and an op that reads it can both put an axis
there; in a dim that has no such slot, where either can (experts, which dispatch makes whole and
expert products shard: an all-to-all lies between). An op gives up the parts whose slots are not,
which may cost other values theirs.

What follows for a value is worked out once for each of its surroundings: its slots, and the looks
of the ops that make and read it. Ops have one look where they have the same parts on the same slots
(`op_infos` keeps one object of each) and the same parts left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.problem.problem import Problem

Reader = tuple[int, int]  # position of the op, of its input
Root = tuple[str, Mapping[int, int]]  # root of a tensor, slot -> the root's slot


class _ValueSlots(NamedTuple):
    """The slots of a value, and whether an op around it has to give up parts for them."""

    slots: tuple[int, ...]
    is_settled: bool


class Shardable:
    """slots: root -> its shardable slots. parts: of every op by position, none of views.

    looks: numbers of ops by position, equal for equal rules, parts on equal slots and equal parts
    left.
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
        self._viewed = {root for name, (root, _) in roots.items() if name != root}
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
            found = self._found(root)
            self.slots[root] = found.slots
            if found.is_settled:
                continue
            for position in self._around(root):
                for other in self._give_up(position, root):
                    waiting[other] = None

    def _around(self, root: str) -> list[int]:
        around = [position for position, _ in self.readers[root]]
        return [*around, self.producers[root][0]] if root in self.producers else around

    def _found(self, root: str) -> _ValueSlots:
        if root in self._viewed:
            return _ValueSlots(self._wanted(root), False)
        info, looks, producer = self.problem.tensors[root], self.looks, self.producers.get(root)
        key: list[object] = [self._key_of(info.slots), info.is_free]
        key += (looks[producer[0]], producer[1]) if producer is not None else (None, None)
        for position, k in self.readers[root]:
            key += (looks[position], k)
        content = tuple(key)
        found = self._known.get(content)
        if found is None:
            slots = self._wanted(root)
            loses = not info.is_free and any(
                self._lost(position, root, slots) for position in self._around(root)
            )
            found = self._known[content] = _ValueSlots(slots, not loses)
        return found

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

    def _slots_at(self, position: int, port: OpPort) -> set[int]:
        mapping = self.roots[port.tensor][1]
        return {mapping[s] for part, s in port.slot_of.items() if part in self.parts[position]}

    def _lost(self, position: int, root: str, slots: tuple[int, ...]) -> set[int]:
        """The parts of an op whose slot in `root` is not shardable."""
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

    def _give_up(self, position: int, root: str) -> set[str]:
        """Drop what an op loses; the values this touches."""
        if self.problem.tensors[root].is_free:
            return set()
        lost = self._lost(position, root, self.slots[root])
        if not lost:
            return set()
        op = self.problem.ops[position]
        left = self.parts[position] - lost
        self.parts[position] = left - _without_leaders(op, left)
        self.looks[position] = self._look(position)
        return {self.roots[port.tensor][0] for port in (*op.inputs, *op.outputs)}


_NONE: frozenset[int] = frozenset()


def _parts_with_axes(op: OpInfo) -> frozenset[int]:
    """Parts on which axes can lie, by themselves or with a part that they follow."""
    own = frozenset(j for j, part in enumerate(op.parts) if part.shardable or part.may_follow)
    return own - _without_leaders(op, own)


def _without_leaders(op: OpInfo, parts: frozenset[int]) -> set[int]:
    """Those of `parts` that axes reach only with a part that they follow, and none is there."""
    left = {op.parts[j].factor for j in parts}
    return {
        j for j in parts if not op.parts[j].shardable and left.isdisjoint(op.parts[j].may_follow)
    }
