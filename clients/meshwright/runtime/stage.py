"""A stage of a plan as it is carried out: by op and input, the layouts and steps on the way.

What an op needs of an input is where the plan's steps end; of inputs that lie nowhere (loaded, or
made of nothing) it is what the op's rule and strategy say.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Literal, NamedTuple

from meshwright.runtime.op_axes import on_dims
from meshwright.runtime.views import KINDS, unviewed, viewed
from meshwright.schema import (
    Axis,
    Dim,
    Factor,
    Graph,
    Layout,
    Mesh,
    Op,
    OpPlan,
    ParameterPlan,
    PlanError,
    Redistribution,
    Stage,
    Step,
    SubDim,
    TensorPlan,
    parse_notation,
)
from meshwright.schema.notation import Segments, Term

Half = Literal["forward", "backward", "per_step"]
PlanReader = tuple[str | None, int | None]  # name of the op, its input
ALL_READERS: PlanReader = (None, None)


class Source(NamedTuple):
    """Where a tensor comes from: the value that it views, and the views on the way there."""

    root: str
    views: tuple[Op, ...]


class PlannedStage:
    """Looks a stage up. Raises PlanError for an op that the plan says nothing of."""

    def __init__(self, graph: Graph, stage: Stage, symbols: Mapping[str, int]) -> None:
        self.graph = graph
        self.stage = stage
        self.mesh: Mesh = stage.mesh
        self.shapes = graph.instantiate(symbols)
        self.ops: dict[str, OpPlan] = {op.op: op for op in stage.ops}
        self.tensors: dict[str, TensorPlan] = {t.tensor: t for t in stage.tensors}
        self.parameters: dict[str, ParameterPlan] = {p.tensor: p for p in stage.parameters}
        segments = () if stage.recompute is None else stage.recompute.segments
        self.recomputed = frozenset(op for segment in segments for op in segment.again)
        self._producers = graph.producers()
        self._moved: dict[tuple[str, PlanReader, str], list[Redistribution]] = {}
        for moved in stage.redistributions:
            key = (moved.tensor, (moved.op, moved.input), moved.traffic)
            self._moved.setdefault(key, []).append(moved)
        self._sources: dict[str, Source] = {}

    @cached_property
    def order(self) -> tuple[Op, ...]:
        """The ops of the stage, each after those that it reads from; views are not among them."""
        return tuple(op for op in self.graph.topological_order() if op.name in self.ops)

    def source(self, tensor: str) -> Source:
        """The value that a tensor is, or is a view of."""
        found = self._sources.get(tensor)
        if found is None:
            op = self._producers.get(tensor)
            if op is None or op.name in self.ops or tensor in self.tensors:
                found = Source(tensor, ())
            elif op.kind not in KINDS:
                raise PlanError(f"the plan has no strategy for op {op.name!r} ({op.kind})")
            else:
                before = self.source(op.inputs[0])
                found = Source(before.root, (*before.views, op))
            self._sources[tensor] = found
        return found

    def is_free(self, root: str) -> bool:
        """Whether every rank loads or makes what it needs of a value."""
        return root not in self.tensors and root not in self.parameters

    def at_rest(self, root: str) -> Layout:
        """How a value lies: as its producer leaves it, or a parameter between steps."""
        if root in self.parameters:
            return self.parameters[root].value
        return self.tensors[root].rest.value

    def as_read(self, root: str) -> Layout | None:
        """The layout that all readers share; None where each takes it as it rests."""
        own = self.tensors.get(root)
        return None if own is None or own.read is None else own.read.value

    def steps(self, root: str, reader: PlanReader, traffic: str, half: Half) -> tuple[Step, ...]:
        """What the plan does with a value (for one reader) in one half of its traffic."""
        moved = self._moved.get((root, reader, traffic), ())
        return tuple(step for own in moved for step in getattr(own, half))

    def is_again(self, root: str, reader: PlanReader, traffic: str) -> bool:
        """Whether the forward steps are repeated in the backward pass."""
        return any(own.again for own in self._moved.get((root, reader, traffic), ()))

    def needed(self, op: Op, k: int) -> Layout:
        """How an op needs an input, in terms of the value that it views."""
        source = self.source(op.inputs[k])
        if self.is_free(source.root):
            layout = self._by_rule(op, k)
            for place in range(len(source.views) - 1, -1, -1):
                view = source.views[place]
                layout = unviewed(layout, view, self.shapes[view.inputs[0]], self.mesh)
            return layout
        read = self.as_read(source.root)
        parameter = source.root in self.parameters and read is None
        traffic = "parameter" if parameter else "activation"
        steps = self.steps(source.root, (op.name, k), traffic, "forward")
        return steps[-1].to if steps else read or self.at_rest(source.root)

    def seen(self, tensor: str, layout: Layout) -> Layout:
        """The layout of a tensor whose value lies so."""
        for view in self.source(tensor).views:
            layout = viewed(layout, view, self.shapes[view.outputs[0]], self.mesh)
        return layout

    def terms(self, op: Op) -> tuple[Term, ...]:
        """What the plan's rule says of the inputs and outputs; none where it has no rule."""
        rule = self.ops[op.name].rule
        if rule is None:
            return ()
        return parse_notation(rule).terms_of(len(op.inputs) + len(op.outputs))

    def axes_of(self, op: Op, dim: Segments) -> tuple[Axis, ...]:
        """The axes that lie on a dim of an op's rule."""
        return on_dims(self.ops[op.name], [dim])

    def made_shape(self, op: Op, k: int) -> tuple[int, ...]:
        """The shape of what one device makes of an output."""
        shape = self.shapes[op.outputs[k]]
        terms = self.terms(op)
        if not terms:
            return shape
        term = terms[len(op.inputs) + k]
        ways = [self.mesh.size(self.axes_of(op, dim)) for dim in term]
        return tuple(size // own for size, own in zip(shape, ways, strict=True))

    def _by_rule(self, op: Op, k: int) -> Layout:
        shape = self.shapes[op.inputs[k]]
        terms = self.terms(op)
        if not terms:
            return _whole(shape)
        sizes = self._factor_sizes(op, terms)
        dims = []
        for size, dim in zip(shape, terms[k], strict=True):
            strategy = self.ops[op.name].strategy
            used = [f for product in dim for f in product if f in strategy]
            if not used:
                dims.append(Dim(parts=(SubDim(size=size),)))
                continue
            parts = tuple(
                SubDim(size=sizes[factor], axes=strategy.get(factor, ()))
                for factor in dim[0]
                if factor in sizes
            )
            if len(dim) > 1 or prod(part.size for part in parts) != size:
                raise PlanError(
                    f"op {op.name!r}: which part of its input {k} a rank loads does not follow "
                    f"from {self.ops[op.name].rule}"
                )
            dims.append(Dim(parts=parts))
        return Layout(dims=tuple(dims))

    def _factor_sizes(self, op: Op, terms: tuple[Term, ...]) -> dict[Factor, int]:
        sizes: dict[Factor, int] = {}
        for name, term in zip((*op.inputs, *op.outputs), terms, strict=True):
            for size, dim in zip(self.shapes[name], term, strict=True):
                if len(dim) == 1 and len(dim[0]) == 1:
                    sizes[dim[0][0]] = size
            root = self.source(name).root
            if self.is_free(root):
                continue
            layout = self.seen(name, self.at_rest(root))
            for own, dim in zip(layout.dims, term, strict=True):
                if not own.segments and len(dim) == 1 and len(dim[0]) == len(own.parts):
                    sizes |= dict(zip(dim[0], (part.size for part in own.parts), strict=True))
        return sizes


def _whole(shape: tuple[int, ...]) -> Layout:
    return Layout(dims=tuple(Dim(parts=(SubDim(size=size),)) for size in shape))
