"""Conversion of a plan for a captured MindSpore graph to settings of the network.

MindSpore derives the layouts of results, the redistributions and the reductions of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshwright.convert.grid import grid_of
from meshwright.convert.mindspore_moves import otherwise_of
from meshwright.convert.mindspore_network import MindSporeNetwork, PrimitiveStrategy
from meshwright.convert.mindspore_ops import primitive_strategy
from meshwright.convert.plan import Refusal, export_plan
from meshwright.convert.strategy import Cuts
from meshwright.schema import (
    ConversionError,
    Graph,
    Layout,
    ParameterPlan,
    Plan,
    PlanError,
    Setup,
    microbatch_symbols,
)
from meshwright.stages.planned_stage import PlannedStage

_LEVELS = ("none", "level1", "level2", "level3")
_LOADED = ("input", "label")
_FOLLOWING_KINDS = ("reshape", "cast")  # MindSpore gives these the layout of their neighbors


def network_of(plan: Plan, graph: Graph, setup: Setup) -> MindSporeNetwork:
    """The network settings of a plan for a graph of `meshwright capture mindspore`.

    Raises PlanError where graph or setup do not belong to the plan, and for several pipeline stages
    or microbatches. Other parts that MindSpore cannot express are listed by name in `refused`.
    """
    if setup.id != plan.setup:
        raise PlanError(f"the plan was made for the setup {plan.setup}, got {setup.id}")
    if setup.phase == "inference":
        raise PlanError(
            "the plan is for inference, whose graph has no loss and a cache; a MindSpore network "
            "takes plans for training. Plan without --phase inference"
        )
    if len(plan.stages) != 1 or plan.microbatches != 1:
        raise PlanError(
            f"the plan has {len(plan.stages)} pipeline stage(s) and {plan.microbatches} "
            "microbatch(es); a MindSpore network supports one of each. Plan with "
            "--pipeline 1 and --microbatches 1"
        )
    exported = export_plan(plan, "mindspore", graph=graph)
    stage = plan.stages[0]
    planned = PlannedStage(graph, stage, microbatch_symbols(graph, setup, plan.microbatches))
    grid = grid_of(stage.mesh, ranks_from=stage.ranks_from)
    strategies = exported.stages[0].strategies
    reasons = {
        refusal.name: refusal.reason for refusal in exported.refused if refusal.role == "strategy"
    }
    refused: list[Refusal] = []
    primitives: dict[str, PrimitiveStrategy] = {}
    operators: dict[str, str] = {}
    for op in graph.topological_order():
        if op.kind in _FOLLOWING_KINDS:
            continue
        try:
            if op.name in reasons and op.kind != "one_hot":
                raise ConversionError(reasons[op.name])
            strategy = primitive_strategy(op, planned, grid, strategies)
            if primitives.setdefault(op.module, strategy) != strategy:
                raise ConversionError(
                    f"op {op.name!r}: its primitive {op.module!r} runs several times, and the plan "
                    f"wants {strategy.in_strategy} here and "
                    f"{primitives[op.module].in_strategy} there. Create a primitive for each"
                )
        except ConversionError as wrong:
            refused.append(Refusal(stage=0, name=op.name, role="strategy", reason=wrong.detail))
        else:
            operators[op.name] = op.module
    levels = {parameter.tensor: _level(parameter, planned) for parameter in stage.parameters}
    level = max(levels.values(), default=0)
    refused += [
        Refusal(
            stage=0,
            name=name,
            role="optimizer",
            reason=f"parameter {name!r} has shards of optimizer {_LEVELS[parameter_level]}, others "
            f"of {_LEVELS[level]}, and MindSpore has one level for all. State one level",
        )
        for name, parameter_level in levels.items()
        if parameter_level not in (0, level)
    ]
    gathers = "all_to_all" if setup.allow_all_to_all else "all_gather"
    return MindSporeNetwork(
        plan=plan.id,
        mesh=grid,
        primitives=primitives,
        operators=operators,
        reshapes={
            op.name: len(graph.tensor(op.inputs[0]).shape)
            for op in graph.ops
            if op.kind == "reshape"
        },
        context=_context(setup, len(grid.ranks), level),
        dataset=_dataset(graph, setup, len(grid.ranks)),
        whole=tuple(name for name, value in levels.items() if value == 0) if level else (),
        parallel_optimizer_comm_recompute=_gathered_again(levels, planned),
        refused=tuple(refused),
        otherwise=tuple(otherwise_of(planned, all_to_all=gathers)),
    )


def _gathered_again(levels: Mapping[str, int], planned: PlannedStage) -> tuple[str, ...]:
    """The parameters of level 3 that a recomputed op reads."""
    read = {name for op in planned.order if op.name in planned.recomputed for name in op.inputs}
    return tuple(name for name, level in levels.items() if level == 3 and name in read)


def _level(parameter: ParameterPlan, planned: PlannedStage) -> int:
    """The level of MindSpore's parallel optimizer that shards the parameter like the plan.

    Level 1 shards the optimizer state, level 2 also the gradient, level 3 also the value.
    """
    needed = _layout_read(parameter.tensor, planned)
    if needed is not None and parameter.value != needed:
        return 3
    if parameter.gradient is not None and parameter.gradient != parameter.value:
        return 2
    return 1 if parameter.optimizer is not None and parameter.optimizer != parameter.value else 0


def _layout_read(tensor: str, planned: PlannedStage) -> Layout | None:
    for op in planned.order:
        for place, name in enumerate(op.inputs):
            if name == tensor:
                return planned.needed(op, place)
    return None


def _context(setup: Setup, devices: int, level: int) -> dict[str, Any]:
    """Keyword arguments of set_auto_parallel_context."""
    context: dict[str, Any] = {
        "parallel_mode": "semi_auto_parallel",
        "device_num": devices,
        "pipeline_stages": 1,
        "gradients_mean": setup.gradients == "mean",
        "enable_alltoall": setup.allow_all_to_all,
        "dataset_strategy": ("data_parallel" if setup.dataset == "data_parallel" else "full_batch"),
        "enable_parallel_optimizer": level > 0,
    }
    if level:
        context["parallel_optimizer_config"] = {
            "optimizer_level": _LEVELS[level],
            "parallel_optimizer_threshold": 0,
        }
    return context


def _dataset(graph: Graph, setup: Setup, devices: int) -> Cuts:
    first = devices if setup.dataset == "data_parallel" else 1
    return tuple(
        (first, *(1,) * (len(tensor.shape) - 1)) if tensor.shape else ()
        for tensor in graph.tensors
        if tensor.role in _LOADED
    )
