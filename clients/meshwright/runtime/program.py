"""Stage programs: the ops of a stage on one rank, with the redistributions of their inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meshwright.runtime.gather_whole import from_whole, gradient_of, to_whole, whole_of
from meshwright.runtime.ranks import loaded
from meshwright.runtime.redistribution_steps import ForwardAndBackward, LayoutChange
from meshwright.runtime.sequence_order import OpOrder, Ordered, Turns
from meshwright.runtime.unsharded_ops import why_whole
from meshwright.schema import Layout, Op, OpPlan, PlanError, SequenceOrder
from meshwright.schema.notation import Term
from meshwright.stages.planned_stage import ALL_READERS, PlannedStage, PlanReader
from meshwright.stages.view_layouts import viewed


@dataclass(frozen=True, slots=True)
class LocalView:
    """A view of a local shard: a transpose with an order of dims, otherwise a reshape."""

    order: tuple[int, ...] | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpInput:
    """The redistributions of one input of an op, in this order:

    turns   from true positions to the sequence order
    shared  the steps of all readers
    own     the steps of this reader
    around  the gather of an op that runs whole
    """

    root: str
    shared: ForwardAndBackward | None
    own: ForwardAndBackward
    around: ForwardAndBackward | None
    views: tuple[LocalView, ...]
    turns: Turns


@dataclass(frozen=True, slots=True)
class PlannedOp:
    """The execution of one op on a rank.

    `made` are the slices of the outputs if the op runs whole. `is_again` is true for an op that is
    recomputed in the backward pass, so that nothing of it is saved. `order` is the sequence order
    of an op by position.
    """

    op: Op
    planned: OpPlan
    terms: tuple[Term, ...]
    inputs: tuple[OpInput, ...]
    shapes: tuple[tuple[int, ...], ...]
    whole_shapes: tuple[tuple[int, ...], ...]
    is_free: bool
    is_whole: bool
    made: tuple[ForwardAndBackward | None, ...]
    is_again: bool
    order: OpOrder | None


class StageProgram:
    """The ops of a stage on one rank, in execution order.

    `kinds` are the kinds of ops with a kernel. `fallen_back` maps an op that runs whole although
    the plan shards it to the reason. `has` are the layouts of inputs and labels on the rank, if
    other stages on the rank share them. `kept` are values with further uses than their readers.
    `order` are the orders in which sequences are loaded.
    """

    def __init__(
        self,
        planned: PlannedStage,
        kinds: Collection[str],
        *,
        has: Mapping[str, Layout] | None = None,
        kept: Collection[str] = (),
        order: Sequence[SequenceOrder] = (),
    ) -> None:
        self.planned = planned
        self._kinds = kinds
        self.loaded: Mapping[str, Layout] = loaded(planned) if has is None else has
        self.fallen_back: dict[str, str] = {}
        self.dtypes = {tensor.name: tensor.dtype for tensor in planned.graph.tensors}
        _check(planned)
        self.order = Ordered(planned, order)
        self.ops = tuple(self._op(op) for op in planned.order)
        self.last_reader: dict[str, int] = {}
        for place, planned_op in enumerate(self.ops):
            roots = (value.root for value in planned_op.inputs if value.root not in kept)
            self.last_reader |= dict.fromkeys(roots, place)

    def _op(self, op: Op) -> PlannedOp:
        planned = self.planned
        op_plan = planned.ops[op.name]
        is_free = all(planned.is_free(name) for name in op.outputs)
        why = "" if is_free else why_whole(op_plan, op.attrs, self._kinds)
        if why:
            self.fallen_back[op.name] = why
        is_whole = bool(why) or is_free
        shapes = tuple(
            planned.shapes[name] if is_whole else planned.made_shape(op, k)
            for k, name in enumerate(op.outputs)
        )
        return PlannedOp(
            op=op,
            planned=op_plan,
            terms=() if is_whole else planned.terms(op),
            inputs=tuple(self._input(op, k, bool(why)) for k in range(len(op.inputs))),
            shapes=shapes,
            whole_shapes=tuple(planned.shapes[name] for name in op.inputs),
            is_free=is_free,
            is_whole=is_whole,
            made=tuple(self._output(name) if why else None for name in op.outputs),
            is_again=op.name in planned.recomputed,
            order=self.order.of(op, is_whole=is_whole),
        )

    def _input(self, op: Op, k: int, runs_whole: bool) -> OpInput:
        planned = self.planned
        source = planned.source(op.inputs[k])
        root, needed = source.root, planned.needed(op, k)
        reader: PlanReader = (op.name, k)
        op_plan = planned.ops[op.name]
        used = [*(axis for axes in op_plan.strategy.values() for axis in axes), *op_plan.partial]
        gradient = gradient_of(needed, used, planned.mesh)
        shared = self._shared(root)
        if planned.is_free(root):
            held = self.held(root, needed)
            cut = LayoutChange(root, held, from_whole(needed), "forward")
            forth = ForwardAndBackward(cut, LayoutChange(root, needed, (), "backward"), reader)
        elif root in planned.parameters and shared is None:
            forth = self._way(root, reader, planned.at_rest(root), gradient, "parameter")
        else:
            before = planned.as_read(root) or planned.at_rest(root)
            forth = self._way(root, reader, before, gradient, "activation")
        around = None
        if runs_whole:
            around = _into_whole(root, needed, gradient)
            needed = whole_of(needed)
        views = []
        for view in source.views:
            needed = viewed(needed, view, planned.shapes[view.outputs[0]], planned.mesh)
            order = tuple(view.attrs["dims"]) if view.kind == "transpose" else None
            views.append(LocalView(order, needed.local_shape(planned.mesh)))
        return OpInput(root, shared, forth, around, tuple(views), self.order.taken(op, root))

    def held(self, root: str, needed: Layout) -> Layout:
        """The layout of a free value on a rank, in the sub-dims that a reader needs.

        It is the rank's slice of the dataset, or the whole value.
        """
        layout, whole = self.loaded.get(root), whole_of(needed)
        if layout is None:
            return whole
        dims = [
            need if need == have else bare
            for need, have, bare in zip(needed.dims, layout.dims, whole.dims, strict=True)
        ]
        return Layout(dims=tuple(dims))

    def _shared(self, root: str) -> ForwardAndBackward | None:
        planned = self.planned
        read = planned.tensors[root].read if root in planned.tensors else None
        if read is None:
            return None
        traffic = "parameter" if root in planned.parameters else "activation"
        gradient = read.gradient or Layout(dims=read.value.dims)
        return self._way(root, ALL_READERS, planned.at_rest(root), gradient, traffic)

    def _way(
        self, root: str, reader: PlanReader, before: Layout, gradient: Layout, traffic: str
    ) -> ForwardAndBackward:
        planned = self.planned
        back = "gradient" if traffic == "parameter" else traffic
        return ForwardAndBackward(
            LayoutChange(root, before, planned.steps(root, reader, traffic, "forward"), "forward"),
            LayoutChange(root, gradient, planned.steps(root, reader, back, "backward"), "backward"),
            reader,
            planned.is_again(root, reader, traffic),
        )

    def _output(self, name: str) -> ForwardAndBackward | None:
        tensor = self.planned.tensors.get(name)
        if tensor is None:
            return None
        gradient = tensor.rest.gradient or Layout(dims=tensor.rest.value.dims)
        return _out_of_whole(name, tensor.rest.value, gradient)


def _into_whole(root: str, value: Layout, gradient: Layout) -> ForwardAndBackward:
    """The gather of a value from shards, and the slice of its gradient."""
    return ForwardAndBackward(
        LayoutChange(root, value, to_whole(value), "fallback"),
        LayoutChange(root, whole_of(gradient), from_whole(gradient), "fallback"),
    )


def _out_of_whole(root: str, value: Layout, gradient: Layout) -> ForwardAndBackward:
    """The slice of a value into shards, and the gather of its gradient."""
    return ForwardAndBackward(
        LayoutChange(root, whole_of(value), from_whole(value), "fallback"),
        LayoutChange(root, gradient, to_whole(gradient), "fallback"),
    )


def _check(planned: PlannedStage) -> None:
    """Raise PlanError for a feature that the runtime does not support, with the remedy."""
    for parameter in planned.parameters.values():
        for has, feature, option in (
            (parameter.sparse_gradient, "has a sparse gradient", "--sparse-gradients"),
            (parameter.owner, "is stored whole on an owner", "--optimizer-whole-parameters"),
            (parameter.on_host, "is offloaded to the host", "--offload"),
        ):
            if has:
                raise PlanError(
                    f"parameter {parameter.tensor!r} {feature}, which the runtime does not "
                    f"support. Plan without {option}"
                )
    for tensor, layout in _layouts(planned):
        if layout.padded or any(p.span or p.chunks for dim in layout.dims for p in dim.parts):
            raise PlanError(
                f"tensor {tensor!r} has unequal chunks ({layout}), which the runtime does not "
                "support. Plan with --uneven refuse"
            )


def _layouts(planned: PlannedStage) -> list[tuple[str, Layout]]:
    pairs: list[tuple[str, Layout | None]] = []
    for parameter in planned.parameters.values():
        layouts = (parameter.value, parameter.gradient, parameter.optimizer)
        pairs += [(parameter.tensor, layout) for layout in layouts]
    pairs += [(tensor.tensor, tensor.rest.value) for tensor in planned.tensors.values()]
    return [(name, layout) for name, layout in pairs if layout is not None]
