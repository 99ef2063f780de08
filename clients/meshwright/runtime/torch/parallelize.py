"""From a module and a plan to what one rank trains."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
import torch.distributed as dist

from meshwright.runtime.reporting import Reports
from meshwright.runtime.source import PlanSource
from meshwright.runtime.torch.groups import Groups, made_groups
from meshwright.runtime.torch.observing import Observing
from meshwright.runtime.torch.start_up import joined
from meshwright.runtime.torch.trained import Trained
from meshwright.schema import Graph, PlanError

_LOG = logging.getLogger(__name__)


def parallelize(
    module: torch.nn.Module,
    plan: str | Path,
    *,
    server: str | None = None,
    cache: Path | None = None,
    timeout_s: float = 600,
    silence_s: float = 30,
) -> Trained:
    """What this process trains of a module under a plan: a file, a URL, or an id at `server`.

    The process group is torch.distributed's default one; where there is none yet, one is made of
    what the launcher says (torchrun), and left on closing. cache: a folder, in which a restart
    finds what it needs without the service. A service is told now and then how long a step takes.
    Raises PlanError where the plan is for another number
    of ranks or another module, RankLost naming a rank that fails or has not come after timeout_s;
    so does a step, when a rank has given no sign of life for silence_s.
    """
    start, leave = joined(next(module.parameters()).device, timeout_s)
    pulse = start.pulse(silence_s)

    def groups() -> Groups:
        start.meet("reading the plan")
        made = made_groups(strategy, timeout_s)
        pulse.aborts(made.every())
        return made

    def close() -> None:
        pulse.close()
        leave()

    try:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        source = PlanSource(plan, server=server, cache=cache)
        strategy, graph = source.of_rank(rank, world_size)
        _check(graph)
        trained = Trained(
            module,
            strategy,
            graph,
            groups=groups,
            close=close,
            pulse=pulse,
            observing=_observing(source, next(module.parameters()).device),
        )
        pulse.begin()
        start.meet("placing the parameters")
    except BaseException as why:
        start.fail(why)
        close()
        raise
    if rank == 0:
        _tell(trained)
    return trained


def _observing(source: PlanSource, device: torch.device) -> Observing | None:
    """Steps are reported to the service that has the plan; of a file to nobody."""
    at = source.service()
    return None if at is None else Observing(at[1], device, Reports(at[0]))


def _check(graph: Graph) -> None:
    """Refuse what cannot be trained."""
    if graph.loss is None:
        raise PlanError(f"the graph {graph.id} has no loss; capture a forward that returns it")


def _tell(trained: Trained) -> None:
    """What is not as planned, once."""
    for op, why in trained.fallen_back.items():
        _LOG.warning("op %r is run whole on every rank: %s", op, why)
    if trained.why_plain:
        _LOG.warning("parameters are plain tensors, not DTensors: %s", trained.why_plain)
