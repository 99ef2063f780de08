"""Stages that are alike: one plan, under other names.

Stages of equal structure are planned once, for the one that holds most microbatches; the plan's
ops and tensors are then renamed. Where a user's pins differ stages are not alike.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from meshwright.schema import Graph, Plan, Request
from meshwright.schema.canonical import canonical_json
from solver.pins import matching_pins
from solver.renaming import renamed_stage


@dataclass(slots=True)
class Alike:
    """Plans of stages, by structure."""

    _known: dict[Hashable, tuple[Graph, Plan]] = field(default_factory=dict)

    def find(self, graph: Graph, request: Request) -> Plan | None:
        """The plan of a stage like this one that held as many microbatches or more."""
        known = self._known.get(_structure(graph, request))
        if known is None:
            return None
        original, plan = known
        names = dict(zip(_names(original), _names(graph), strict=True))
        return plan.model_copy(
            update={"stages": tuple(renamed_stage(stage, names) for stage in plan.stages)}
        )

    def add(self, graph: Graph, request: Request, plan: Plan) -> Plan:
        """Stages come in their order, so that none after this one holds more."""
        self._known[_structure(graph, request)] = graph, plan
        return plan


def _names(graph: Graph) -> list[str]:
    return [*(op.name for op in graph.ops), *(tensor.name for tensor in graph.tensors)]


def _structure(graph: Graph, request: Request) -> Hashable:
    number = {tensor.name: k for k, tensor in enumerate(graph.tensors)}
    marks = matching_pins(graph, request.pins, request.module)
    return (
        tuple((t.shape, t.dtype, t.role, t.trainable) for t in graph.tensors),
        tuple(
            (
                op.kind,
                canonical_json(op.attrs) if op.attrs else "",
                op.rule.model_dump_json() if op.rule is not None else "",
                str(op.strategy),
                tuple(number[name] for name in op.inputs),
                tuple(number[name] for name in op.outputs),
                marks.get(op.name),
            )
            for op in graph.ops
        ),
        tuple(number[name] for name in graph.outputs),
        number.get(graph.loss or ""),
        request.setup.id,
        request.topology.id,
    )
