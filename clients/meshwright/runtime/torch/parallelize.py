"""Parallelization of a PyTorch module: one rank's part of it under a plan."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, overload

import torch
import torch.distributed as dist

from meshwright.launch_options.module_strategy import ModuleStrategy, module_strategy
from meshwright.planfile import PlanFile
from meshwright.runtime.plan_source import PlanSource
from meshwright.runtime.reporting import Reports
from meshwright.runtime.torch.fsdp2 import TrainedModule
from meshwright.runtime.torch.groups import StageGroups, create_groups
from meshwright.runtime.torch.module_check import Method, ModuleCheck, compare_module
from meshwright.runtime.torch.module_check.parameter_check import other_dtypes
from meshwright.runtime.torch.parallel_model import Trained
from meshwright.runtime.torch.start_up import joined
from meshwright.runtime.torch.step_reporting import Observing
from meshwright.schema import Graph, PlanError
from meshwright.schema.rank_strategy import RankStrategy

Engine = Literal["graph", "torch"]
_LOG = logging.getLogger(__name__)
_CHECKS = {
    "graph": "the module was compared with the plan's graph by its ops",
    "loss": "the module was compared with the plan's graph by the loss and gradients of one step",
    "none": "the module was not compared with the plan's graph",
}


@overload
def parallelize(
    module: torch.nn.Module,
    plan: str | Path | PlanFile,
    *,
    server: str | None = None,
    cache: Path | None = None,
    timeout_s: float = 600,
    silence_s: float = 30,
    check_module: Method = "graph",
    engine: Literal["graph"] = "graph",
) -> Trained: ...


@overload
def parallelize(
    module: torch.nn.Module,
    plan: str | Path | PlanFile,
    *,
    server: str | None = None,
    cache: Path | None = None,
    timeout_s: float = 600,
    silence_s: float = 30,
    check_module: Method = "graph",
    engine: Literal["torch"],
) -> TrainedModule: ...


def parallelize(
    module: torch.nn.Module,
    plan: str | Path | PlanFile,
    *,
    server: str | None = None,
    cache: Path | None = None,
    timeout_s: float = 600,
    silence_s: float = 30,
    check_module: Method = "graph",
    engine: Engine = "graph",
) -> Trained | TrainedModule:
    """This process's part of a module under a plan.

    plan: a file, its content, a URL, or an id at `server`.

    The engine `graph` runs the ops of the plan's graph and carries out any plan; the module is left
    as it is. The engine `torch` changes the module in place by PyTorch's own parts (fully_shard,
    parallelize_module, checkpoint_wrapper), and runs its own forward. It carries out plans of the
    target `fsdp2`, and raises PlanError with the reason for others.

    The process group is the default one of torch.distributed. If there is none, this function
    creates it from the variables of the launcher (torchrun), and `close` destroys it. A restart
    reads the plan from the folder `cache` without the service. Jobs report step times to the
    service of their plan.

    Every rank compares the module with the graph of the plan: the ops of a new trace by default,
    the loss and gradients of one step on the CPU (`loss`), or nothing (`none`). The result's
    `module_check` states what was compared.

    Raises PlanError if the plan is for another number of ranks, and its subclass ModuleMismatch if
    the module is not that of the plan. Raises RankLost
    if a rank fails or does not start within `timeout_s` seconds. A step raises RankLost if a rank
    has no heartbeat for `silence_s` seconds.
    """
    start, leave = joined(next(module.parameters()).device, timeout_s)
    pulse = start.pulse(silence_s)

    def check() -> ModuleCheck:
        start.meet("reading the plan")
        result = compare_module(module, graph, check_module, symbols=strategy.symbols)
        start.renew()
        return result

    def groups() -> StageGroups:
        start.meet("checking the module")
        stage_groups = create_groups(strategy, timeout_s)
        pulse.aborts(stage_groups.every())
        return stage_groups

    def close() -> None:
        pulse.close()
        leave()

    try:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        source = PlanSource(plan, server=server, cache=cache)
        strategy, graph = source.of_rank(rank, world_size)
        _check(graph)
        observing = _observing(source, next(module.parameters()).device)
        if engine == "torch":
            own = _module_strategy(strategy, graph)
            in_place = TrainedModule(
                module,
                own,
                strategy,
                graph,
                close=close,
                pulse=pulse,
                check=check,
                meet=lambda: start.meet("checking the module"),
                observing=observing,
            )
            pulse.begin()
            start.meet("placing the parameters")
            if rank == 0:
                in_place.log_differences()
            return in_place
        trained = Trained(
            module,
            strategy,
            graph,
            groups=groups,
            close=close,
            pulse=pulse,
            check=check,
            observing=observing,
        )
        pulse.begin()
        start.meet("placing the parameters")
    except BaseException as why:
        start.fail(why)
        close()
        raise
    if rank == 0:
        _log_differences(trained, other_dtypes(graph, module))
    return trained


def _observing(source: PlanSource, device: torch.device) -> Observing | None:
    """The reports of step times to the service of the plan; None for a plan in a file."""
    service = source.service()
    return None if service is None else Observing(service[1], device, Reports(service[0]))


def _module_strategy(strategy: RankStrategy, graph: Graph) -> ModuleStrategy:
    """The plan in the terms of PyTorch's own parts; PlanError where they do not state it."""
    if len(strategy.sites) > 1:
        raise PlanError(
            f"the plan has {len(strategy.sites)} stages, and the engine 'torch' runs one. Use the "
            "engine 'graph', or plan with the target fsdp2"
        )
    if strategy.order:
        raise PlanError(
            "the plan loads sequences in another order, which the engine 'torch' does not. Use the "
            "engine 'graph'"
        )
    found = module_strategy(strategy.stages[0].planned, graph, strategy.symbols)
    if found.unstated:
        more = f" (and {len(found.unstated) - 1} more)" if len(found.unstated) > 1 else ""
        raise PlanError(
            f"PyTorch's own parts do not carry out the plan: {found.unstated[0]}{more}. Use the "
            "engine 'graph', or plan with the target fsdp2"
        )
    return found


def _check(graph: Graph) -> None:
    """Raise PlanError for a graph without a loss."""
    if graph.loss is None:
        raise PlanError(f"the graph {graph.id} has no loss. Capture a forward that returns it")


def _log_differences(trained: Trained, dtypes: Mapping[str, str]) -> None:
    """Log the differences from the plan. `dtypes` replace those of the graph."""
    check = trained.module_check
    if check.reason:
        _LOG.warning("%s: %s", _CHECKS[check.method], check.reason)
    for planned, dtype in dtypes.items():
        _LOG.warning("parameters are %s, and %s in the plan's graph", dtype, planned)
    for op, why in trained.fallen_back.items():
        _LOG.warning("op %r is run whole on every rank: %s", op, why)
    if trained.why_plain:
        _LOG.warning("parameters are plain tensors, not DTensors: %s", trained.why_plain)
