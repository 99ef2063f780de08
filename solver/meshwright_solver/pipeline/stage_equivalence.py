"""Stage equivalence: stages that are equal up to names have one plan.

Stages in which the request states different things of ops or parameters are not equivalent.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from meshwright.schema import Graph, Request, Setup, Stage
from meshwright_solver.common.renaming import renamed_stage
from meshwright_solver.problem.op_signature import OpLooks
from meshwright_solver.stage.op_marks import marks_of


def alike(
    graphs: Sequence[Graph],
    request: Request,
    setups: Sequence[Setup],
    places: Sequence[Hashable],
) -> list[int]:
    """By stage, the first equivalent stage. places: equal for stages on equal devices."""
    first: dict[Hashable, int] = {}
    looks = OpLooks()
    return [
        first.setdefault((_structure(graph, request, looks), setup.id, place), number)
        for number, (graph, setup, place) in enumerate(zip(graphs, setups, places, strict=True))
    ]


def as_planned_for(stage: Stage, planned: Graph, graph: Graph) -> Stage:
    """The planned stage with the names of an equivalent graph."""
    if graph is planned:
        return stage
    return renamed_stage(stage, dict(zip(_names(planned), _names(graph), strict=True)))


def _names(graph: Graph) -> list[str]:
    return [*(op.name for op in graph.ops), *(tensor.name for tensor in graph.tensors)]


def _structure(graph: Graph, request: Request, looks: OpLooks) -> Hashable:
    number = {tensor.name: k for k, tensor in enumerate(graph.tensors)}
    marks = marks_of(request.model_copy(update={"graph": graph}))
    return (
        tuple([(t.shape, t.dtype, t.role, t.trainable) for t in graph.tensors]),
        tuple(
            [
                (
                    looks.of(op),
                    tuple([number[name] for name in op.inputs]),
                    tuple([number[name] for name in op.outputs]),
                    marks.get(op.name),
                )
                for op in graph.ops
            ]
        ),
        tuple([number[name] for name in graph.outputs]),
        number.get(graph.loss or ""),
    )
