"""Expert slots: the mixtures of a stage, and their ops with more slots than planned.

A *mixture* is a `moe_dispatch` and the ops that read its slots, up to the `moe_combine`. Experts
without a fixed capacity (`capacity_factor` 1.0) drop no token in the captured program. In a step in
which an expert is chosen more often than it has slots, all experts of the mixture get more slots:
the layouts and steps stay those of the plan, with a longer dim of slots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from meshwright.runtime.program import LocalView, OpInput, PlannedOp, StageProgram
from meshwright.runtime.redistribution_steps import ForwardAndBackward, LayoutChange
from meshwright.schema import Axis, Dim, Layout, Op, parse_notation
from meshwright.schema.notation import Segments
from meshwright.stages.op_axes import on_reused
from meshwright.stages.planned_stage import PlannedStage

_SLOT_DIM = 2  # of the output of a dispatch [e, b, c, h]


@dataclass(frozen=True)
class Mixture:
    """The mixture of one dispatch.

    slots     the planned slots of an expert per sequence
    ops       the ops on slots, from the dispatch to the combine
    dims      the dim of slots by tensor
    multiple  the divisor of every number of slots, so that all layouts divide
    axes      the mesh axes over which ranks exchange slots, and thus have equally many
    fixed     the reason for which the number of slots cannot change; empty if it can
    """

    planned: PlannedStage
    slots: int
    ops: tuple[PlannedOp, ...]
    dims: Mapping[str, int]
    multiple: int
    axes: tuple[Axis, ...]
    fixed: str

    def least_slots(self, needed: int) -> int:
        """The slots of an expert if the busiest one needs this many."""
        if needed <= self.slots:
            return self.slots
        return -(-needed // self.multiple) * self.multiple

    def with_slots(self, slots: int) -> dict[str, PlannedOp]:
        """The ops by name, with this number of slots."""
        return {op.op.name: _Resizing(self, slots).op(op) for op in self.ops}


def mixtures_of(program: StageProgram, sent: Collection[str]) -> dict[str, Mixture]:
    """The mixtures without a fixed capacity, by dispatch. `sent` are tensors of other stages."""
    return {
        op.op.name: _Reading(program, place, sent).mixture()
        for place, op in enumerate(program.ops)
        if op.op.kind == "moe_dispatch" and op.op.attrs.get("capacity_factor", 1) == 1
    }


class _FixedSlots(Exception):
    """An op or layout whose number of slots cannot change."""


class _Reading:
    """The reading of one mixture from a program, in execution order."""

    def __init__(self, program: StageProgram, place: int, sent: Collection[str]) -> None:
        self._planned = program.planned
        self._later = program.ops[place + 1 :]
        self._dispatch = program.ops[place]
        self._sent = sent
        (output,) = self._dispatch.op.outputs
        self._dims: dict[str, int] = {output: _SLOT_DIM}

    def mixture(self) -> Mixture:
        slots = self._planned.shapes[self._dispatch.op.outputs[0]][_SLOT_DIM]
        ops, multiple, axes, fixed = [self._dispatch], 1, set[Axis](), ""
        try:
            ops += self._readers()
            for op in ops:
                for dim in self._slot_dims(op):
                    if len(dim.parts) != 1 or dim.segments:
                        raise _FixedSlots(f"the slots of op {op.op.name!r} have sub-dims")
                    multiple = lcm(multiple, self._planned.mesh.size(dim.parts[0].axes))
                for name in op.op.outputs:
                    multiple = lcm(multiple, self._shards(op, name))
                axes |= set(self._step_axes(op)) | set(on_reused(op.planned))
        except _FixedSlots as reason:
            fixed = str(reason)
        ordered = tuple(axis for axis in self._planned.mesh.names if axis in axes)
        return Mixture(self._planned, slots, tuple(ops), self._dims, multiple, ordered, fixed)

    def _readers(self) -> Iterator[PlannedOp]:
        """The ops after the dispatch that read slots. Raises _FixedSlots if one is not row-wise."""
        is_combined = False
        for op in self._later:
            places = [k for k, value in enumerate(op.inputs) if value.root in self._dims]
            if not places:
                continue
            if op.op.kind == "moe_combine" and places == [0]:
                is_combined = True
            else:
                self._follow(op, places)
            yield op
        sent = sorted(self._dims.keys() & set(self._sent))
        if sent or not is_combined:
            raise _FixedSlots(f"{(sent or list(self._dims))[-1]!r} is read by another stage")

    def _follow(self, op: PlannedOp, places: Sequence[int]) -> None:
        """Add the outputs of an op that computes every slot alone."""
        name, terms = op.op.name, self._planned.terms(op.op)
        if not terms or op.planned.rule is None:
            raise _FixedSlots(f"op {name!r} has no rule")
        rule = parse_notation(op.planned.rule)
        others = rule.unsharded | rule.reused | rule.halo | rule.summed
        others |= rule.follows.keys() | rule.may_follow.keys()
        for k in places:
            dim = _seen_dim(self._planned, op.op.inputs[k], self._dims)
            factor = terms[k][dim]
            if len(factor) != 1 or len(factor[0]) != 1 or factor[0][0] in others:
                raise _FixedSlots(f"op {name!r} does not compute every slot alone")
            for i, tensor in enumerate(op.op.inputs):
                sizes = zip(self._planned.shapes[tensor], terms[i], strict=True)
                if i not in places and any(size > 1 and has == factor for size, has in sizes):
                    raise _FixedSlots(f"{tensor!r} has an element for each slot")
            for output, term in zip(op.op.outputs, terms[len(op.op.inputs) :], strict=True):
                if term.count(factor) != 1:
                    raise _FixedSlots(f"op {name!r} does not compute every slot alone")
                self._dims[output] = term.index(factor)

    def _slot_dims(self, op: PlannedOp) -> Iterator[Dim]:
        for tensor, way in _ways(op):
            if tensor in self._dims:
                for move in (way.forward, way.backward):
                    for layout in (move.before, *(step.to for step in move.steps)):
                        yield layout.dims[self._dims[tensor]]

    def _step_axes(self, op: PlannedOp) -> Iterator[Axis]:
        for tensor, way in _ways(op):
            if tensor in self._dims:
                for step in (*way.forward.steps, *way.backward.steps):
                    yield from step.axes

    def _shards(self, op: PlannedOp, output: str) -> int:
        """The number of parts of the slots that an op computes."""
        terms = self._planned.terms(op.op)
        if output not in self._dims or op.is_whole or not terms:
            return 1
        term = terms[len(op.op.inputs) + op.op.outputs.index(output)]
        dim: Segments = term[self._dims[output]]
        return self._planned.mesh.size(self._planned.axes_of(op.op, dim))


@dataclass(frozen=True, slots=True)
class _Resizing:
    """The ops of a mixture with another number of slots."""

    mixture: Mixture
    slots: int

    def op(self, op: PlannedOp) -> PlannedOp:
        dims, planned = self.mixture.dims, self.mixture.planned
        return replace(
            op,
            inputs=tuple(
                self._input(op.op.inputs[k], value) if value.root in dims else value
                for k, value in enumerate(op.inputs)
            ),
            shapes=tuple(
                self._shape(shape, dims.get(name))
                for name, shape in zip(op.op.outputs, op.shapes, strict=True)
            ),
            whole_shapes=tuple(
                self._shape(shape, _seen_dim(planned, op.op.inputs[k], dims))
                if op.inputs[k].root in dims
                else shape
                for k, shape in enumerate(op.whole_shapes)
            ),
            made=tuple(
                way and self._way(way, dims[name]) if name in dims else way
                for name, way in zip(op.op.outputs, op.made, strict=True)
            ),
        )

    def _input(self, tensor: str, value: OpInput) -> OpInput:
        planned = self.mixture.planned
        dim, views = self.mixture.dims[value.root], []
        for view, local in zip(planned.source(tensor).views, value.views, strict=True):
            dim = _viewed_dim(planned, dim, view)
            views.append(LocalView(local.order, self._shape(local.shape, dim)))
        dim = self.mixture.dims[value.root]
        return replace(
            value,
            shared=value.shared and self._way(value.shared, dim),
            own=self._way(value.own, dim),
            around=value.around and self._way(value.around, dim),
            views=tuple(views),
        )

    def _way(self, way: ForwardAndBackward, dim: int) -> ForwardAndBackward:
        return replace(
            way, forward=self._move(way.forward, dim), backward=self._move(way.backward, dim)
        )

    def _move(self, move: LayoutChange, dim: int) -> LayoutChange:
        steps = tuple(
            step.model_copy(update={"to": self._layout(step.to, dim)}) for step in move.steps
        )
        return replace(move, before=self._layout(move.before, dim), steps=steps)

    def _layout(self, layout: Layout, dim: int) -> Layout:
        (part,) = layout.dims[dim].parts
        longer = Dim(parts=(part.model_copy(update={"size": self._size(part.size)}),))
        dims = (*layout.dims[:dim], longer, *layout.dims[dim + 1 :])
        return layout.model_copy(update={"dims": dims})

    def _shape(self, shape: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
        if dim is None:
            return shape
        return (*shape[:dim], self._size(shape[dim]), *shape[dim + 1 :])

    def _size(self, slots: int) -> int:
        """The new number of slots in a shard, from the planned one."""
        return slots * self.slots // self.mixture.slots


def _ways(op: PlannedOp) -> Iterator[tuple[str, ForwardAndBackward]]:
    """The redistributions around an op, with their tensors."""
    for value in op.inputs:
        for way in (value.shared, value.own, value.around):
            if way is not None:
                yield value.root, way
    for name, way in zip(op.op.outputs, op.made, strict=True):
        if way is not None:
            yield name, way


def _seen_dim(planned: PlannedStage, tensor: str, dims: Mapping[str, int]) -> int:
    """The dim of slots in a tensor that views a value with slots."""
    source = planned.source(tensor)
    dim = dims[source.root]
    for view in source.views:
        dim = _viewed_dim(planned, dim, view)
    return dim


def _viewed_dim(planned: PlannedStage, dim: int, view: Op) -> int:
    """The place of a dim in a view. Raises _FixedSlots if the view regroups it."""
    if view.kind == "transpose":
        return list(view.attrs["dims"]).index(dim)
    before, after = planned.shapes[view.inputs[0]], planned.shapes[view.outputs[0]]
    outer = prod(before[:dim])
    places = [d for d, size in enumerate(after) if size == before[dim] and prod(after[:d]) == outer]
    if len(places) != 1:
        raise _FixedSlots(f"op {view.name!r} regroups the slots")
    return places[0]
