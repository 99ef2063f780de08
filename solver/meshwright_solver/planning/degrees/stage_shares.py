"""Plans of a stated pipeline's stages, each in a share of its rank's memory.

    1. equal shares; a stage that needs more than its own has its leanest plan
    2. then what each holds in its place, and an equal part of what its rank has left, or lacks:
       ranks hold what passes by once, and what waits for the weights' half of a split backward pass
       is known only when there is a plan
    3. again, while the pipeline gets faster in the memory there is, or misses it by less

Stages that are alike have one plan, for the one that holds most: its share is that of all.
"""

from __future__ import annotations

from dataclasses import replace

from meshwright.schema import Infeasible, Request
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.stage_plans import (
    StageAnswer,
    StagePlans,
    StageWishes,
    Wish,
    plan_stages,
)
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.degrees.least_memory import plan_anyway

_ROUNDS = 4  # chosen: of stages planned in other shares; the second is mostly enough


def plan_shared(
    request: Request, configuration: Configuration, staged: Staged, deadline: Deadline
) -> StagePlans | Infeasible:
    """The fastest that fits, else the one that misses by least."""
    order = staged.schedule
    wishes = StageWishes.of((order.ranks / order.stages,) * order.stages, order)
    known: dict[Wish, StageAnswer] = {}
    best: StagePlans | None = None
    for _ in range(1 + _ROUNDS):
        found = plan_stages(
            request, configuration, staged, wishes, deadline, TOLERANCE, plan_anyway, known=known
        )
        if isinstance(found, Infeasible):
            return best or found
        if best is not None and _rank(found) >= _rank(best):
            return best
        best = found
        shares = _shares(found, staged, wishes)
        if shares == wishes.shares or min(shares) <= 0 or deadline.is_over():
            return best
        wishes = replace(wishes, shares=shares)
    assert best is not None
    return best


def _rank(found: StagePlans) -> tuple[int, float]:
    return max(0, *found.over_bytes), found.ns


def _shares(found: StagePlans, staged: Staged, wishes: StageWishes) -> tuple[float, ...]:
    count = staged.schedule.stages // staged.schedule.ranks
    own = []
    for stage, rank in zip(found.priced.stages, staged.schedule.rank_of, strict=True):
        of_rank, memory = found.priced.of_ranks[rank], stage.memory_bytes
        assert memory is not None
        left = (of_rank.capacity - of_rank.total) / count
        held = memory.total - memory.reserved
        own.append((held + left) / (of_rank.capacity - of_rank.reserved))
    fullest: dict[int, int] = {}
    for number, first in enumerate(found.first):
        most = fullest.setdefault(first, number)
        if wishes.held[number] > wishes.held[most]:
            fullest[first] = number
    return tuple([own[fullest[first]] for first in found.first])
