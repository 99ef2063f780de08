"""Plans of a stated pipeline's stages, each within a share of its rank's memory.

    1. Shares are equal, or as estimated; a stage that needs more than its share has its leanest
       plan.
    2. Each stage then has the memory that it uses, and an equal part of its rank's free memory or
       shortfall. A rank has transient memory only once, and the buffers of a split backward pass
       are known only from a plan.
    3. Step 2 repeats while the pipeline gets faster within memory, or its shortfall gets smaller.

Equal stages have one plan, for the stage with most memory: its share is that of all.
"""

from __future__ import annotations

from dataclasses import replace

from meshwright.schema import Infeasible, Request
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.stage_plans import (
    StageAnswer,
    StagePlanner,
    StagePlans,
    StageWishes,
    Wish,
    plan_stages,
)
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.degrees.least_memory import plan_anyway

_ROUNDS = 4  # chosen: of plans with new shares; two are mostly enough


def plan_shared(
    request: Request,
    configuration: Configuration,
    staged: Staged,
    deadline: Deadline,
    planned: StagePlanner = plan_anyway,
    shares: tuple[float, ...] = (),
) -> StagePlans | Infeasible:
    """The fastest stage plans that fit, else those with the smallest shortfall.

    planned: the planner of stages. shares: by stage, its first share of its rank's memory; equal
    ones by default.
    """
    order = staged.schedule
    wishes = StageWishes.of(shares or (order.ranks / order.stages,) * order.stages, order)
    known: dict[Wish, StageAnswer] = {}
    best: StagePlans | None = None
    for _ in range(1 + _ROUNDS):
        plans = plan_stages(
            request, configuration, staged, wishes, deadline, TOLERANCE, planned, known=known
        )
        if isinstance(plans, Infeasible):
            return best or plans
        if best is not None and _preference(plans) >= _preference(best):
            return best
        best = plans
        better = _shares(plans, staged, wishes)
        if better == wishes.shares or min(better) <= 0 or deadline.is_over():
            return best
        wishes = replace(wishes, shares=better)
    assert best is not None
    return best


def _preference(plans: StagePlans) -> tuple[int, float]:
    return max(0, *plans.over_bytes), plans.ns


def _shares(plans: StagePlans, staged: Staged, wishes: StageWishes) -> tuple[float, ...]:
    count = staged.schedule.stages // staged.schedule.ranks
    share_of_stage = []
    for stage, rank in zip(plans.priced.stages, staged.schedule.rank_of, strict=True):
        of_rank, memory = plans.priced.of_ranks[rank], stage.memory_bytes
        assert memory is not None
        spare = (of_rank.capacity - of_rank.total) / count
        held = memory.total - memory.reserved
        share_of_stage.append((held + spare) / (of_rank.capacity - of_rank.reserved))
    fullest: dict[int, int] = {}
    for number, first in enumerate(plans.first):
        most = fullest.setdefault(first, number)
        if wishes.held[number] > wishes.held[most]:
            fullest[first] = number
    return tuple([share_of_stage[fullest[first]] for first in plans.first])
