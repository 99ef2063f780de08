"""The sketches of a problem's ops, one object for ops of equal content.

Repeated layers share a few sketches, so that the cost of a mesh grows with its distinct ops.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.precision_recipes import EIGHT_BIT, quantized_bytes
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
from meshwright_solver.strategies.gemm_shape import work_shape
from meshwright_solver.strategies.op_template import OpSketch, PortSketch


@dataclass(slots=True)
class OpSketches:
    """The sketches of a problem's ops by position."""

    problem: Problem
    values: Values
    _key_of: IdentityKeys = field(default_factory=IdentityKeys)
    _looks: dict[int, int] = field(default_factory=dict)
    _tensor_looks: dict[str, int] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _known: dict[OpSketch, OpSketch] = field(default_factory=dict)
    _by_look: dict[int, OpSketch] = field(default_factory=dict)

    def sketch(self, position: int) -> OpSketch:
        """The sketch of an op; ops of equal content share one object."""
        look = self.look(position)
        sketch = self._by_look.get(look)
        if sketch is None:
            new_sketch = self._make(position)
            sketch = self._by_look[look] = self._known.setdefault(new_sketch, new_sketch)
        return sketch

    def look(self, position: int) -> int:
        """The look of an op: a number that ops share if their models have equal content.

        Spans of uneven sizes are not part of it: they depend on the tensor and the op.
        """
        number = self._looks.get(position)
        if number is None:
            op, values = self.problem.ops[position], self.values
            tensors = [self.tensor_look(port.tensor) for port in (*op.inputs, *op.outputs)]
            remade = op.name in self.problem.remade.again
            is_low = position in values.low_precision.products
            key = (values.looks[position], values.saved_inputs[position], remade, is_low, *tensors)
            number = self._looks[position] = self._numbers.setdefault(key, len(self._numbers))
        return number

    def tensor_look(self, name: str) -> int:
        """The look of a tensor: a number that tensors share if their layouts have equal content."""
        number = self._tensor_looks.get(name)
        if number is None:
            value, tensors = self.values.value_of[name], self.problem.tensors
            info = tensors[name]
            # tensors of equal shape and slots share one tuple
            key: tuple[object, ...] = (
                self._key_of(info.slots),
                info.tensor.dtype,
                info.has_gradient,
                value.slots,
                value.is_free,
                value.is_parameter,
                info.shape,
                tuple(info.segments.items()) if info.segments else (),
                tuple(info.chunks.items()) if info.chunks else (),
                name in self.problem.sent,
                value.root in self.values.low_precision.sent,
                value.root in self.values.low_precision.saved,
                self.problem.top_k_of(value.slot_of),
                self.problem.loads.of_slots(name, range(len(info.slots))),
            )
            if value.root != name:
                key += (self.tensor_look(value.root), tuple(value.slot_of[name].items()))
            key = ("tensor", *key)
            number = self._tensor_looks[name] = self._numbers.setdefault(key, len(self._numbers))
        return number

    def _make(self, position: int) -> OpSketch:
        op = self.problem.ops[position]
        rule = op.known.rule if op.known is not None else None
        tensors, is_low = self.problem.tensors, position in self.values.low_precision.products
        # every device computes constants whole: they are small, and slicing them is then free
        makes_constants = all(self.values.value_of[port.tensor].is_free for port in op.outputs)
        allowed = frozenset() if makes_constants else self.values.shardable[position]
        dense = op.known is not None and op.known.op_class == "memory"
        inputs = tuple(self._port(op, position, k, True) for k in range(len(op.inputs)))
        groups = tuple(
            group
            for group in (rule.linear if rule is not None and dense else ())
            if all(
                not inputs[k].is_free and inputs[k].has_gradient and not inputs[k].is_parameter
                for k in group
            )
        )
        return OpSketch(
            op_class=op.known.op_class if op.known is not None else "memory",
            dtype=EIGHT_BIT if is_low else tensors[(op.op.inputs or op.op.outputs)[0]].tensor.dtype,
            flops=op.flops,
            sizes=tuple(part.size for part in op.parts),
            shardable=tuple(part.shardable and j in allowed for j, part in enumerate(op.parts)),
            reused=tuple(part.reused for part in op.parts),
            halo_elements=tuple(part.halo_elements for part in op.parts),
            groups=groups,
            inputs=inputs,
            outputs=tuple(self._port(op, position, k, False) for k in range(len(op.outputs))),
            sparse_inputs=op.known.sparse_inputs if op.known is not None else (),
            skewed=tuple(
                op.known is not None and part.factor in op.known.skewed for part in op.parts
            ),
            zigzag=self.problem.setup.sequence_order == "zigzag",
            followers=_followers(op, allowed, inputs),
            candidates=op.known.candidates if op.known is not None else 0,
            in_place=op.known is not None and op.known.in_place,
            steps=_steps(op),
            is_remade=op.name in self.problem.remade.again,
            load=self.problem.loads.of_parts(position, len(op.parts)),
            shape=work_shape(op) if self.problem.calibration.curves else None,
            quantized=quantized_bytes(self.problem.setup.precision) / 2 if is_low else 0.0,
        )

    def _port(self, op: OpInfo, position: int, k: int, is_input: bool) -> PortSketch:
        port = (op.inputs if is_input else op.outputs)[k]
        info = self.problem.tensors[port.tensor]
        value = self.values.value_of[port.tensor]
        to_root: Mapping[int, int] = value.slot_of[port.tensor]
        places = {slot: place for place, slot in enumerate(value.slots)}
        loads = self.problem.loads
        return PortSketch(
            is_free=value.is_free,
            slot_of=tuple(
                sorted(
                    (part, places.get(to_root[slot], -1) if not value.is_free else 0)
                    for part, slot in port.slot_of.items()
                    if value.is_free or to_root[slot] in places
                )
            ),
            bytes=info.bytes,
            has_gradient=info.has_gradient,
            saved=is_input and (position, k) in value.saving,
            sent=not is_input and port.tensor in self.problem.sent,
            is_parameter=value.is_parameter,
            has_load=loads.of_slots(port.tensor, range(len(info.slots))) is not None,
        )


def _steps(op: OpInfo) -> int:
    factor = op.known.steps if op.known is not None else None
    return math.prod(part.size for part in op.parts if part.factor == factor)


def _followers(
    op: OpInfo, allowed: frozenset[int], inputs: Sequence[PortSketch]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Parts with their followers, for which an input that is not free has to circulate.

    Factors of equally many parts follow part by part; otherwise the major part follows the major.
    """
    if op.known is None:
        return ()
    followers: dict[int, tuple[int, ...]] = {}
    for factor, leaders in op.known.rule.parsed.may_follow.items():
        follower_parts = [j for j, part in enumerate(op.parts) if part.factor == factor]
        for leader in leaders:
            leader_parts = [j for j, part in enumerate(op.parts) if part.factor == leader]
            pairs = (
                zip(leader_parts, follower_parts, strict=True)
                if len(leader_parts) == len(follower_parts)
                else [(leader_parts[0], follower_parts[0])]
            )
            for first, second in pairs:
                travels = any(
                    not port.is_free
                    and {second} <= {part for part, _ in port.slot_of}
                    and first not in {part for part, _ in port.slot_of}
                    for port in inputs
                )
                is_free_to = op.parts[first].shardable and op.parts[second].may_follow
                if travels and is_free_to and {first, second} <= allowed:
                    followers[first] = (*followers.get(first, ()), second)
    return tuple(sorted(followers.items()))
