"""Memory: what every stage of a plan takes of its devices, and what is left of every rank's."""

from __future__ import annotations

from pydantic import BaseModel

from meshwright.schema import MemoryUse, Moment, Plan
from meshwright_service.plan_views.simulation_view import RankCurve


class StageMemory(BaseModel):
    """What a stage takes of its fullest device at its fullest moment, in parts; the parts add up to
    total_bytes. moments: the fullest of every pass."""

    stage: int
    rank: int
    parts: dict[str, int]
    total_bytes: int
    at: str
    moments: tuple[Moment, ...]


class RankMemory(BaseModel):
    """A rank's devices: total_bytes of all its stages together, margin_bytes are left. at_most: its
    stages are fullest at different moments, and it takes less than they add up to. host_bytes: of a
    device's share of its host."""

    rank: int
    stages: tuple[int, ...]
    total_bytes: int
    at_most: bool
    capacity_bytes: int
    margin_bytes: int
    host_bytes: int
    host_capacity_bytes: int


class PlanMemory(BaseModel):
    """Where a plan's memory goes. over_time: where points were asked for."""

    plan: str
    stages: tuple[StageMemory, ...]
    ranks: tuple[RankMemory, ...]
    over_time: tuple[RankCurve, ...] = ()


def memory_of(plan: Plan) -> PlanMemory:
    """What a plan document says of memory."""
    alone = plan.schedule is None
    stages = []
    for number, stage in enumerate(plan.stages):
        use = plan.cost.memory_bytes if alone else stage.memory_bytes or MemoryUse()
        stages.append(
            StageMemory(
                stage=number,
                rank=stage.pipeline_rank,
                parts=_parts(use),
                total_bytes=use.total,
                at=use.moment,
                moments=stage.moments,
            )
        )
    ranks = sorted({stage.pipeline_rank for stage in plan.stages})
    return PlanMemory(
        plan=plan.id,
        stages=tuple(stages),
        ranks=tuple(_rank(plan, rank) for rank in ranks),
    )


def _rank(plan: Plan, rank: int) -> RankMemory:
    whole = plan.cost.memory_bytes
    if plan.schedule is None:
        stages: tuple[int, ...] = (0,)
        uses = [whole]
    else:
        stages = tuple(n for n, own in enumerate(plan.stages) if own.pipeline_rank == rank)
        uses = [plan.stages[n].memory_bytes or MemoryUse() for n in stages]
    # the reserve is the device's, not each stage's
    added = sum(use.total - use.reserved for use in uses) + uses[0].reserved
    total = min(added, whole.total)  # that is of the fullest rank
    capacity = uses[0].capacity or whole.capacity
    return RankMemory(
        rank=rank,
        stages=stages,
        total_bytes=total,
        at_most=len(uses) > 1,
        capacity_bytes=capacity,
        margin_bytes=capacity - total,
        host_bytes=sum(use.host for use in uses),
        host_capacity_bytes=uses[0].host_capacity or whole.host_capacity,
    )


def _parts(use: MemoryUse) -> dict[str, int]:
    return {
        "parameters": use.parameters,
        "gradients": use.gradients,
        "optimizer": use.optimizer,
        "activations": use.activations,
        "cache": use.cache,
        "recomputed": use.recomputed,
        "working": use.working,
        "gathered": use.gathered,
        "buffers": use.buffers,
        "reserved": use.reserved,
    }
