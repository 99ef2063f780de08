"""A plan of a captured MindSpore graph -> what the network is given.

MindSpore derives everything else: layouts of results, redistributions, reductions of gradients.
"""

from __future__ import annotations

from typing import Any

from meshwright.convert.grid import grid_of
from meshwright.convert.mindspore_moves import otherwise_of
from meshwright.convert.mindspore_network import MindSporeNetwork, PrimitiveStrategy
from meshwright.convert.mindspore_ops import written
from meshwright.convert.plan import Refusal, export_plan
from meshwright.convert.strategy import Cuts
from meshwright.runtime.stage import PlannedStage
from meshwright.schema import ConversionError, Graph, Layout, ParameterPlan, Plan, PlanError, Setup

_LEVELS = ("none", "level1", "level2", "level3")
_LOADED = ("input", "label")
_TOLD_NOTHING = ("reshape", "cast")  # MindSpore lays these out as their neighbours lie


def network_of(plan: Plan, graph: Graph, setup: Setup) -> MindSporeNetwork:
    """A plan of a graph that `meshwright capture mindspore` made, for the network itself.

    Raises PlanError where graph or setup are not the plan's, and for several pipeline stages or
    microbatches; what else MindSpore cannot be told is in `refused`, by name.
    """
    if setup.id != plan.setup:
        raise PlanError(f"the plan was made for the setup {plan.setup}, got {setup.id}")
    if len(plan.stages) != 1 or plan.microbatches != 1:
        raise PlanError(
            f"the plan has {len(plan.stages)} pipeline stage(s) and {plan.microbatches} "
            "microbatch(es); a MindSpore network is written for one of each: plan with "
            "--pipeline 1 and --microbatches 1"
        )
    exported = export_plan(plan, "mindspore", graph=graph)
    stage = plan.stages[0]
    planned = PlannedStage(graph, stage, setup.symbols)
    grid = grid_of(stage.mesh, ranks_from=stage.ranks_from)
    strategies = exported.stages[0].strategies
    reasons = {own.name: own.reason for own in exported.refused if own.role == "strategy"}
    refused: list[Refusal] = []
    primitives: dict[str, PrimitiveStrategy] = {}
    operators: dict[str, str] = {}
    for op in graph.topological_order():
        if op.kind in _TOLD_NOTHING:
            continue
        try:
            if op.name in reasons and op.kind != "one_hot":
                raise ConversionError(reasons[op.name])
            found = written(op, planned, grid, strategies)
            if primitives.setdefault(op.module, found) != found:
                raise ConversionError(
                    f"op {op.name!r}: its primitive {op.module!r} runs several times, and the plan "
                    f"wants {found.in_strategy} here and "
                    f"{primitives[op.module].in_strategy} there; make a primitive for each"
                )
        except ConversionError as wrong:
            refused.append(Refusal(stage=0, name=op.name, role="strategy", reason=wrong.detail))
        else:
            operators[op.name] = op.module
    levels = {own.tensor: _level(own, planned) for own in stage.parameters}
    level = max(levels.values(), default=0)
    refused += [
        Refusal(
            stage=0,
            name=name,
            role="optimizer",
            reason=f"parameter {name!r} lies in shards as {_LEVELS[own]} has it, others as "
            f"{_LEVELS[level]}, and MindSpore has one level for all; state one",
        )
        for name, own in levels.items()
        if own not in (0, level)
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
        whole=tuple(name for name, own in levels.items() if own == 0) if level else (),
        refused=tuple(refused),
        otherwise=tuple(otherwise_of(planned, all_to_all=gathers)),
    )


def _level(own: ParameterPlan, planned: PlannedStage) -> int:
    """What is finer than the op that reads a parameter needs it: as MindSpore counts its levels."""
    read = _as_read(own.tensor, planned)
    if read is not None and own.value != read:
        return 3
    if own.gradient is not None and own.gradient != own.value:
        return 2
    return 1 if own.optimizer is not None and own.optimizer != own.value else 0


def _as_read(tensor: str, planned: PlannedStage) -> Layout | None:
    for op in planned.order:
        for place, name in enumerate(op.inputs):
            if name == tensor:
                return planned.needed(op, place)
    return None


def _context(setup: Setup, devices: int, level: int) -> dict[str, Any]:
    """Keywords of set_auto_parallel_context."""
    found: dict[str, Any] = {
        "parallel_mode": "semi_auto_parallel",
        "device_num": devices,
        "pipeline_stages": 1,
        "gradients_mean": setup.gradients == "mean",
        "enable_alltoall": setup.allow_all_to_all,
        "dataset_strategy": ("data_parallel" if setup.dataset == "data_parallel" else "full_batch"),
        "enable_parallel_optimizer": level > 0,
    }
    if level:
        found["parallel_optimizer_config"] = {
            "optimizer_level": _LEVELS[level],
            "parallel_optimizer_threshold": 0,
        }
    return found


def _dataset(graph: Graph, setup: Setup, devices: int) -> Cuts:
    first = devices if setup.dataset == "data_parallel" else 1
    return tuple(
        (first, *(1,) * (len(own.shape) - 1)) if own.shape else ()
        for own in graph.tensors
        if own.role in _LOADED
    )
