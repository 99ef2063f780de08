"""A stage as one rank runs it, worked out once: every op with the moves of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meshwright.runtime.fallback import why_whole
from meshwright.runtime.moves import Move, Way
from meshwright.runtime.ordered import OpOrder, Ordered, Turns
from meshwright.runtime.ranks import loaded
from meshwright.runtime.stage import ALL_READERS, PlannedStage, PlanReader
from meshwright.runtime.views import viewed
from meshwright.runtime.whole import from_whole, gradient_of, to_whole, whole_of
from meshwright.schema import Layout, Op, OpPlan, PlanError, SequenceOrder
from meshwright.schema.notation import Term


@dataclass(frozen=True, slots=True)
class View:
    """A view of what a rank holds: its dims in another order, or, without one, another shape."""

    order: tuple[int, ...] | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """An input on its way to an op.

    turns: what is known by true positions into the order of its sequences, before anything else.
    shared: what all readers do first. own: then this one. around: then, where the op is run whole.
    """

    root: str
    shared: Way | None
    own: Way
    around: Way | None
    views: tuple[View, ...]
    turns: Turns


@dataclass(frozen=True, slots=True)
class PlannedOp:
    """One op. made: ways of outputs from whole to parts, where it is run whole. is_again: it is run
    again in the backward pass, and nothing of it is saved. order: where it goes by position."""

    op: Op
    planned: OpPlan
    terms: tuple[Term, ...]
    inputs: tuple[Given, ...]
    shapes: tuple[tuple[int, ...], ...]
    whole_shapes: tuple[tuple[int, ...], ...]
    is_free: bool
    is_whole: bool
    made: tuple[Way | None, ...]
    is_again: bool
    order: OpOrder | None


class Program:
    """Ops in order. kinds: that have a kernel. fallen_back: ops that are run whole though the plan
    shards them -> why.

    has: what the rank has of inputs and labels, where other stages on it need some too. kept:
    values that somebody needs beside the readers. order: in which sequences are loaded.
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
        self.ops = tuple(self._planned(op) for op in planned.order)
        self.last_reader: dict[str, int] = {}
        for place, own in enumerate(self.ops):
            roots = (given.root for given in own.inputs if given.root not in kept)
            self.last_reader |= dict.fromkeys(roots, place)

    def _planned(self, op: Op) -> PlannedOp:
        planned = self.planned
        own = planned.ops[op.name]
        is_free = all(planned.is_free(name) for name in op.outputs)
        why = "" if is_free else why_whole(own, op.attrs, self._kinds)
        if why:
            self.fallen_back[op.name] = why
        is_whole = bool(why) or is_free
        shapes = tuple(
            planned.shapes[name] if is_whole else planned.made_shape(op, k)
            for k, name in enumerate(op.outputs)
        )
        return PlannedOp(
            op=op,
            planned=own,
            terms=() if is_whole else planned.terms(op),
            inputs=tuple(self._given(op, k, bool(why)) for k in range(len(op.inputs))),
            shapes=shapes,
            whole_shapes=tuple(planned.shapes[name] for name in op.inputs),
            is_free=is_free,
            is_whole=is_whole,
            made=tuple(self._made(name) if why else None for name in op.outputs),
            is_again=op.name in planned.recomputed,
            order=self.order.of(op, is_whole=is_whole),
        )

    def _given(self, op: Op, k: int, runs_whole: bool) -> Given:
        planned = self.planned
        source = planned.source(op.inputs[k])
        root, needed = source.root, planned.needed(op, k)
        reader: PlanReader = (op.name, k)
        own = planned.ops[op.name]
        used = [*(axis for axes in own.strategy.values() for axis in axes), *own.partial]
        gradient = gradient_of(needed, used, planned.mesh)
        shared = self._shared(root)
        if planned.is_free(root):
            held = self.held(root, needed)
            cut = Move(root, held, from_whole(needed), "forward")
            forth = Way(cut, Move(root, needed, (), "backward"), reader)
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
            views.append(View(order, needed.local_shape(planned.mesh)))
        return Given(root, shared, forth, around, tuple(views), self.order.taken(op, root))

    def held(self, root: str, needed: Layout) -> Layout:
        """What a rank has of a free value: its share of the dataset, or all; in such sub-dims as
        a reader needs."""
        own, whole = self.loaded.get(root), whole_of(needed)
        if own is None:
            return whole
        dims = [
            need if need == have else bare
            for need, have, bare in zip(needed.dims, own.dims, whole.dims, strict=True)
        ]
        return Layout(dims=tuple(dims))

    def _shared(self, root: str) -> Way | None:
        planned = self.planned
        read = planned.tensors[root].read if root in planned.tensors else None
        if read is None:
            return None
        traffic = "parameter" if root in planned.parameters else "activation"
        gradient = read.gradient or Layout(dims=read.value.dims)
        return self._way(root, ALL_READERS, planned.at_rest(root), gradient, traffic)

    def _way(
        self, root: str, reader: PlanReader, before: Layout, gradient: Layout, traffic: str
    ) -> Way:
        planned = self.planned
        back = "gradient" if traffic == "parameter" else traffic
        return Way(
            Move(root, before, planned.steps(root, reader, traffic, "forward"), "forward"),
            Move(root, gradient, planned.steps(root, reader, back, "backward"), "backward"),
            reader,
            planned.is_again(root, reader, traffic),
        )

    def _made(self, name: str) -> Way | None:
        own = self.planned.tensors.get(name)
        if own is None:
            return None
        gradient = own.rest.gradient or Layout(dims=own.rest.value.dims)
        return _out_of_whole(name, own.rest.value, gradient)


def _into_whole(root: str, value: Layout, gradient: Layout) -> Way:
    """From parts to whole, and the gradient back."""
    return Way(
        Move(root, value, to_whole(value), "fallback"),
        Move(root, whole_of(gradient), from_whole(gradient), "fallback"),
    )


def _out_of_whole(root: str, value: Layout, gradient: Layout) -> Way:
    """From whole to parts, and the gradient back."""
    return Way(
        Move(root, whole_of(value), from_whole(value), "fallback"),
        Move(root, gradient, to_whole(gradient), "fallback"),
    )


def _check(planned: PlannedStage) -> None:
    """Refuse what is not carried out, by name, and say how to plan without it."""
    for parameter in planned.parameters.values():
        for has, what, without in (
            (parameter.sparse_gradient, "has a gradient of rows", "--sparse-gradients"),
            (parameter.owner, "is dealt out whole", "--optimizer-whole-parameters"),
            (parameter.on_host, "lies on the host", "--offload"),
        ):
            if has:
                raise PlanError(
                    f"parameter {parameter.tensor!r} {what}, which is not carried out; plan "
                    f"without {without}"
                )
    for tensor, layout in _layouts(planned):
        if layout.padded or any(p.span or p.chunks for dim in layout.dims for p in dim.parts):
            raise PlanError(
                f"tensor {tensor!r} lies in unequal chunks ({layout}): not carried out; plan "
                "with --uneven refuse"
            )


def _layouts(planned: PlannedStage) -> list[tuple[str, Layout]]:
    found: list[tuple[str, Layout | None]] = []
    for parameter in planned.parameters.values():
        own = (parameter.value, parameter.gradient, parameter.optimizer)
        found += [(parameter.tensor, layout) for layout in own]
    found += [(tensor.tensor, tensor.rest.value) for tensor in planned.tensors.values()]
    return [(name, layout) for name, layout in found if layout is not None]
