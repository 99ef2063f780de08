"""Planned stages: the layouts and steps of a stage, by op and input.

The required layout of an input is the layout after the plan's steps. If the input has no layout at
rest (an input, label or constant), the rule and strategy of the op determine its required layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Literal, NamedTuple

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
from meshwright.stages.op_axes import on_dims
from meshwright.stages.view_layouts import KINDS, unviewed, viewed

Half = Literal["forward", "backward", "per_step"]
PlanReader = tuple[str | None, int | None]  # name of the op, its input
ALL_READERS: PlanReader = (None, None)


class Source(NamedTuple):
    """The source of a tensor: the value that it views, and the views between them."""

    root: str
    views: tuple[Op, ...]


class PlannedStage:
    """An index of a stage. Its methods raise PlanError for an op without a strategy."""

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
        self._redistributions: dict[tuple[str, PlanReader, str], list[Redistribution]] = {}
        for edge in stage.redistributions:
            key = (edge.tensor, (edge.op, edge.input), edge.traffic)
            self._redistributions.setdefault(key, []).append(edge)
        self._sources: dict[str, Source] = {}

    @cached_property
    def order(self) -> tuple[Op, ...]:
        """The ops of the stage in topological order, without views."""
        return tuple(op for op in self.graph.topological_order() if op.name in self.ops)

    def source(self, tensor: str) -> Source:
        """The value that a tensor is, or is a view of."""
        source = self._sources.get(tensor)
        if source is None:
            op = self._producers.get(tensor)
            if op is None or op.name in self.ops or tensor in self.tensors:
                source = Source(tensor, ())
            elif op.kind not in KINDS:
                raise PlanError(f"the plan has no strategy for op {op.name!r} ({op.kind})")
            else:
                before = self.source(op.inputs[0])
                source = Source(before.root, (*before.views, op))
            self._sources[tensor] = source
        return source

    def is_free(self, root: str) -> bool:
        """Whether every rank loads or computes its own part of a value."""
        return root not in self.tensors and root not in self.parameters

    def at_rest(self, root: str) -> Layout:
        """The layout at rest: of a value after its producer, of a parameter between steps."""
        if root in self.parameters:
            return self.parameters[root].value
        return self.tensors[root].rest.value

    def as_read(self, root: str) -> Layout | None:
        """The layout that all readers share; None if they read the layout at rest."""
        tensor = self.tensors.get(root)
        return None if tensor is None or tensor.read is None else tensor.read.value

    def steps(self, root: str, reader: PlanReader, traffic: str, half: Half) -> tuple[Step, ...]:
        """The steps of a value for one reader, in one half of its traffic."""
        edges = self._redistributions.get((root, reader, traffic), ())
        return tuple(step for edge in edges for step in getattr(edge, half))

    def is_again(self, root: str, reader: PlanReader, traffic: str) -> bool:
        """Whether the backward pass repeats the forward steps."""
        edges = self._redistributions.get((root, reader, traffic), ())
        return any(edge.again for edge in edges)

    def needed(self, op: Op, k: int) -> Layout:
        """The layout in which an op needs an input, in terms of the value that the input views."""
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
        """The layout of a tensor, from the layout of the value that it views."""
        for view in self.source(tensor).views:
            layout = viewed(layout, view, self.shapes[view.outputs[0]], self.mesh)
        return layout

    def terms(self, op: Op) -> tuple[Term, ...]:
        """The terms of the inputs and outputs in the op's rule; empty if it has no rule."""
        rule = self.ops[op.name].rule
        if rule is None:
            return ()
        return parse_notation(rule).terms_of(len(op.inputs) + len(op.outputs))

    def axes_of(self, op: Op, dim: Segments) -> tuple[Axis, ...]:
        """The axes on a dim of an op's rule."""
        return on_dims(self.ops[op.name], [dim])

    def made_shape(self, op: Op, k: int) -> tuple[int, ...]:
        """The shape of the part of an output that one device computes."""
        shape = self.shapes[op.outputs[k]]
        terms = self.terms(op)
        if not terms:
            return shape
        term = terms[len(op.inputs) + k]
        ways = [self.mesh.size(self.axes_of(op, dim)) for dim in term]
        return tuple(size // count for size, count in zip(shape, ways, strict=True))

    def _by_rule(self, op: Op, k: int) -> Layout:
        shape = self.shapes[op.inputs[k]]
        terms = self.terms(op)
        if not terms:
            return _unsharded_layout(shape)
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
                    f"op {op.name!r}: the rule {self.ops[op.name].rule} does not determine the "
                    f"part of input {k} that a rank loads"
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
            for placed, dim in zip(layout.dims, term, strict=True):
                if not placed.segments and len(dim) == 1 and len(dim[0]) == len(placed.parts):
                    sizes |= dict(zip(dim[0], (part.size for part in placed.parts), strict=True))
        return sizes


def _unsharded_layout(shape: tuple[int, ...]) -> Layout:
    return Layout(dims=tuple(Dim(parts=(SubDim(size=size),)) for size in shape))
