"""Export of whole plans to another framework, with the list of parts it cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

from pydantic import Field

from meshwright.convert.dtensor import to_dtensor
from meshwright.convert.grid import DeviceGrid, grid_of
from meshwright.convert.mindspore import MindSporeLayout, to_mindspore
from meshwright.convert.partition_spec import JaxLayout, to_jax
from meshwright.convert.placement import DTensorLayout
from meshwright.convert.strategy import OpStrategy, to_strategy
from meshwright.schema import (
    ConversionError,
    Graph,
    Layout,
    LayoutError,
    Model,
    Plan,
    PlanError,
    SequenceOrder,
    Stage,
    parse_notation,
)
from meshwright.schema.notation import Term

Target = Literal["dtensor", "jax", "mindspore"]
TARGETS: tuple[Target, ...] = get_args(Target)
Role = Literal["value", "gradient", "optimizer", "read", "read_gradient", "strategy"]
Converted = DTensorLayout | JaxLayout | MindSporeLayout

_CONVERTERS: dict[Target, Callable[..., Converted]] = {
    "dtensor": to_dtensor,
    "jax": to_jax,
    "mindspore": to_mindspore,
}


class Refusal(Model):
    """A part of the plan that the target cannot express.

    name: of a tensor, or of an op for the role `strategy`.
    """

    stage: int
    name: str
    role: Role
    reason: str


class StageExport(Model):
    """The export of one stage: layouts of tensors by role, and for MindSpore strategies of ops.

    `value` and `gradient` are the layouts at rest; `read` is the layout shared by all readers,
    where it differs. Views have no entry: their layout is that of their base tensor.
    """

    mesh: DeviceGrid
    layouts: dict[str, dict[Role, Converted]]
    strategies: dict[str, OpStrategy] = Field(default_factory=dict)


class Export(Model):
    """The export of a plan for one target; `refused` names the missing parts.

    order: the order in which sequences are loaded. Layouts count positions in this order, which no
    target can express.
    """

    plan: str
    target: Target
    stages: tuple[StageExport, ...]
    order: tuple[SequenceOrder, ...] = ()
    refused: tuple[Refusal, ...] = ()


def export_plan(plan: Plan, target: Target, *, graph: Graph | None = None) -> Export:
    """Every layout of a plan, and for MindSpore every op's strategy, in the target's notation.

    `graph` is the graph of the plan and provides the sizes of op factors. Without it, strategies
    that cut several factors of a product dim are refused, and uneven cuts are not detected.
    Raises PlanError where `graph` is another graph, and where a layout does not fit the mesh.
    """
    if graph is not None and graph.id != plan.graph:
        raise PlanError(f"the plan was made for the graph {plan.graph}, got {graph.id}")
    refused: list[Refusal] = []
    stages = tuple(
        _stage(number, stage, target, graph, refused) for number, stage in enumerate(plan.stages)
    )
    return Export(
        plan=plan.id, target=target, stages=stages, order=plan.order, refused=tuple(refused)
    )


def _stage(
    number: int, stage: Stage, target: Target, graph: Graph | None, refused: list[Refusal]
) -> StageExport:
    grid = grid_of(stage.mesh, ranks_from=stage.ranks_from)
    convert = _CONVERTERS[target]
    layouts: dict[str, dict[Role, Converted]] = {}
    for tensor, role, layout in _layouts(stage):
        try:
            converted = convert(layout, grid, name=f"tensor {tensor!r} ({role.replace('_', ' ')})")
        except ConversionError as wrong:
            refused.append(Refusal(stage=number, name=tensor, role=role, reason=wrong.detail))
        except LayoutError as wrong:
            raise PlanError(f"tensor {tensor!r}: layout {layout}: {wrong.detail}") from None
        else:
            layouts.setdefault(tensor, {})[role] = converted
    strategies = {}
    if target == "mindspore":
        sizes = _factor_sizes(stage, graph)
        for op in stage.ops:
            try:
                strategies[op.op] = to_strategy(op, grid, sizes=sizes.get(op.op))
            except ConversionError as wrong:
                refused.append(
                    Refusal(stage=number, name=op.op, role="strategy", reason=wrong.detail)
                )
    return StageExport(mesh=grid, layouts=layouts, strategies=strategies)


def _layouts(stage: Stage) -> Iterator[tuple[str, Role, Layout]]:
    parameters = {parameter.tensor for parameter in stage.parameters}
    layouts: list[tuple[str, Role, Layout | None]] = []
    for parameter in stage.parameters:
        layouts += [
            (parameter.tensor, "value", parameter.value),
            (parameter.tensor, "gradient", parameter.gradient),
            (parameter.tensor, "optimizer", parameter.optimizer),
        ]
    for tensor in stage.tensors:
        if tensor.tensor not in parameters:
            layouts += [
                (tensor.tensor, "value", tensor.rest.value),
                (tensor.tensor, "gradient", tensor.rest.gradient),
            ]
        if tensor.read is not None:
            layouts += [
                (tensor.tensor, "read", tensor.read.value),
                (tensor.tensor, "read_gradient", tensor.read.gradient),
            ]
    for name, role, layout in layouts:
        if layout is not None:
            yield name, role, layout


def _factor_sizes(stage: Stage, graph: Graph | None) -> dict[str, dict[str, int]]:
    """The sizes of factors by op, as far as the layouts of its tensors determine them."""
    if graph is None:
        return {}
    layouts = {tensor: layout for tensor, role, layout in _layouts(stage) if role == "value"}
    ports = {op.name: (*op.inputs, *op.outputs) for op in graph.ops}
    sizes: dict[str, dict[str, int]] = {}
    for op in stage.ops:
        if op.rule is not None and op.op in ports:
            terms = parse_notation(op.rule).terms_of(len(ports[op.op]))
            known = [(k, layouts.get(name)) for k, name in enumerate(ports[op.op])]
            sizes[op.op] = _sizes(terms, [(k, layout) for k, layout in known if layout is not None])
    return sizes


def _sizes(terms: Sequence[Term], layouts: list[tuple[int, Layout]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for port, layout in layouts:
        for dim, layout_dim in zip(terms[port], layout.dims, strict=True):
            if len(dim) == 1 and len(dim[0]) == len(layout_dim.parts) and not layout_dim.segments:
                for factor, part in zip(dim[0], layout_dim.parts, strict=True):
                    padded = part.span if layout.padded else None
                    sizes[factor] = padded or part.size
    return sizes
