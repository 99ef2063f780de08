"""Op models of a problem on one mesh.

Models of equal content are one object, which is what lets the search solve repeated blocks once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solver.op_info import OpInfo
from solver.op_model import OpModel, PortModel
from solver.problem import Problem
from solver.states import StateSpace
from solver.uneven import Key
from solver.values import Values


@dataclass(slots=True)
class OpModels:
    """Op models of a problem on one mesh, one object for all ops of equal content."""

    problem: Problem
    values: Values
    axis_sizes: tuple[int, ...]
    axis_levels: tuple[int, ...]
    _spaces: dict[StateSpace, StateSpace] = field(default_factory=dict)
    _models: dict[OpModel, OpModel] = field(default_factory=dict)
    _by_position: dict[int, OpModel] = field(default_factory=dict)
    _by_root: dict[str, StateSpace] = field(default_factory=dict)

    def space(self, root: str) -> StateSpace:
        """The states of the value with this root tensor."""
        known = self._by_root.get(root)
        if known is not None:
            return known
        value = self.values.value_of[root]
        info = self.problem.tensors[value.root]
        sizes = [info.slots[slot].size for slot in value.slots]
        spans = self._spans([(value.root, slot) for slot in value.slots], sizes)
        counts: tuple[int, ...] = ()
        if info.chunks:
            own = [info.chunks.get(slot, ()) for slot in value.slots]
            pairs = zip(own, spans or sizes, strict=True)
            spans = tuple(
                len(lengths) * max(lengths) if lengths else span for lengths, span in pairs
            )
            counts = tuple(len(lengths) for lengths in own)
        space = StateSpace(
            tuple(sizes), self.axis_sizes, info.bytes, info.has_gradient, spans, counts
        )
        self._by_root[root] = self._spaces.setdefault(space, space)
        return self._by_root[root]

    def _spans(self, keys: Sequence[Key], sizes: Sequence[int]) -> tuple[int, ...]:
        """The spans of slots or parts, their sizes where they have none; () where none has."""
        own = [self.problem.uneven.span(key, self.axis_sizes) for key in keys]
        if all(span is None for span in own):
            return ()
        return tuple(span or size for span, size in zip(own, sizes, strict=True))

    def model(self, position: int) -> OpModel:
        """The model of the op at this position of the problem."""
        if position not in self._by_position:
            model = self._make(position)
            self._by_position[position] = self._models.setdefault(model, model)
        return self._by_position[position]

    def _make(self, position: int) -> OpModel:
        op = self.problem.ops[position]
        rule = op.known.rule if op.known is not None else None
        # constants are made whole on every device: they are small and then free to slice
        makes_constants = all(self.values.value_of[port.tensor].is_free for port in op.outputs)
        allowed = frozenset() if makes_constants else self.values.shardable[position]
        dense = op.known is not None and op.known.op_class == "memory"
        inputs = tuple(self._port(op, position, k, True) for k in range(len(op.inputs)))
        groups = tuple(
            group
            for group in (rule.linear if rule is not None and dense else ())
            if all(
                inputs[k].space is not None
                and inputs[k].has_gradient
                and not inputs[k].is_parameter
                for k in group
            )
        )
        return OpModel(
            op.known.op_class if op.known is not None else "memory",
            self.problem.tensors[(op.op.inputs or op.op.outputs)[0]].tensor.dtype,
            op.flops,
            tuple(part.size for part in op.parts),
            tuple(part.shardable and j in allowed for j, part in enumerate(op.parts)),
            tuple(part.reused for part in op.parts),
            tuple(part.halo_elements for part in op.parts),
            groups,
            inputs,
            tuple(self._port(op, position, k, False) for k in range(len(op.outputs))),
            op.known.sparse_inputs if op.known is not None else (),
            tuple(op.known is not None and part.factor in op.known.skewed for part in op.parts),
            self.axis_sizes,
            self.axis_levels,
            _followers(op, allowed, inputs),
            self._spans(
                [(position, j) for j in range(len(op.parts))], [part.size for part in op.parts]
            ),
            op.known.candidates if op.known is not None else 0,
        )

    def _port(self, op: OpInfo, position: int, k: int, is_input: bool) -> PortModel:
        port = (op.inputs if is_input else op.outputs)[k]
        info = self.problem.tensors[port.tensor]
        value = self.values.value_of[port.tensor]
        to_root: Mapping[int, int] = value.slot_of[port.tensor]
        places = {slot: place for place, slot in enumerate(value.slots)}
        return PortModel(
            None if value.is_free else self.space(value.root),
            tuple(
                sorted(
                    (part, places.get(to_root[slot], -1) if not value.is_free else 0)
                    for part, slot in port.slot_of.items()
                    if value.is_free or to_root[slot] in places
                )
            ),
            info.bytes,
            info.has_gradient,
            is_input and (position, k) in value.saving,
            value.is_parameter,
        )


def _followers(
    op: OpInfo, allowed: frozenset[int], inputs: Sequence[PortModel]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Parts that other parts may follow, where an input that is not free then travels.

    Factors of equally many parts follow part by part, others major part by major part.
    """
    if op.known is None:
        return ()
    found: dict[int, tuple[int, ...]] = {}
    for factor, leaders in op.known.rule.parsed.may_follow.items():
        own = [j for j, part in enumerate(op.parts) if part.factor == factor]
        for leader in leaders:
            led = [j for j, part in enumerate(op.parts) if part.factor == leader]
            pairs = zip(led, own, strict=True) if len(led) == len(own) else [(led[0], own[0])]
            for first, second in pairs:
                travels = any(
                    port.space is not None
                    and {second} <= {part for part, _ in port.slot_of}
                    and first not in {part for part, _ in port.slot_of}
                    for port in inputs
                )
                is_free_to = op.parts[first].shardable and op.parts[second].may_follow
                if travels and is_free_to and {first, second} <= allowed:
                    found[first] = (*found.get(first, ()), second)
    return tuple(sorted(found.items()))
