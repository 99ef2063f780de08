"""The first difference between the graph of a plan and that of a module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshwright.runtime.torch.module_check.canonical_graph import CanonicalGraph, Numbers
from meshwright.schema import Graph, Op

NOTHING = "no further op before the loss"


@dataclass(frozen=True, slots=True)
class GraphDifference:
    """The first op of each graph that the other one lacks; None if it has no such op."""

    planned: Op | None
    traced: Op | None
    plan_graph: Graph
    module_graph: Graph

    def __str__(self) -> str:
        first = self.planned or self.traced
        assert first is not None
        texts = [
            NOTHING if op is None else _text(op, graph, has_shapes=False)
            for op, graph in self._sides()
        ]
        if texts[0] == texts[1]:
            texts = [
                NOTHING if op is None else _text(op, graph, has_shapes=True)
                for op, graph in self._sides()
            ]
        named = "" if self.planned is None or self.traced is None else self._other_name()
        return (
            f"op {first.name!r} differs. The plan's graph {self.plan_graph.id} has {texts[0]}, "
            f"the module has {texts[1]}{named}"
        )

    def _sides(self) -> tuple[tuple[Op | None, Graph], ...]:
        return ((self.planned, self.plan_graph), (self.traced, self.module_graph))

    def _other_name(self) -> str:
        assert self.planned is not None
        assert self.traced is not None
        return "" if self.traced.name == self.planned.name else f" ({self.traced.name!r})"


def first_difference(
    plan_graph: Graph, module_graph: Graph, sizes: Mapping[str, int], tied: Mapping[str, str]
) -> GraphDifference | None:
    """The first difference of two graphs with a loss at these sizes; None if they are equal.

    `tied` are the names in the module of parameters that have another name in the plan's graph.
    """
    numbers = Numbers(sizes)
    planned = CanonicalGraph(plan_graph, numbers, tied)
    traced = CanonicalGraph(module_graph, numbers, {})
    if planned.loss == traced.loss:
        return None
    return GraphDifference(
        _first_missing(planned, traced), _first_missing(traced, planned), plan_graph, module_graph
    )


def _first_missing(ops: CanonicalGraph, others: CanonicalGraph) -> Op | None:
    """The first op of one graph that the other one lacks."""
    known = set(others.ops.values())
    return next(
        (ops.by_name[name] for name, number in ops.ops.items() if number not in known), None
    )


def _text(op: Op, graph: Graph, *, has_shapes: bool) -> str:
    attrs = ", ".join(f"{name}={value}" for name, value in sorted(op.attrs.items()))
    inputs = ", ".join(
        f"{name!r} {_form(name, graph)}" if has_shapes else repr(name) for name in op.inputs
    )
    source = f" of {inputs}" if inputs else ""
    return f"{op.kind}({attrs}){source} -> {_form(op.outputs[0], graph)}"


def _form(name: str, graph: Graph) -> str:
    tensor = graph.tensor(name)
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
