"""The memory view: peak memory of every stage, and the free memory of every rank."""

from __future__ import annotations

from pydantic import BaseModel

from meshwright.schema import MemoryUse, Moment, Plan
from meshwright.schema.cost import MEMORY_PARTS
from meshwright_service.plan_views.memory_curve import RankCurve, uses_of

# parts of a moment; the others are held all the time
PASSING = ("activations", "recomputed", "working", "gathered", "buffers")


class StageMemory(BaseModel):
    """Peak memory of the fullest device of a stage, in parts that add up to total_bytes.

    at: the moment of the peak. moments: the peak of every pass.
    """

    stage: int
    rank: int
    parts: dict[str, int]
    total_bytes: int
    at: str
    moments: tuple[Moment, ...]


class RankMemory(BaseModel):
    """Memory of a device of a rank: total_bytes of all its stages, and the free margin_bytes.

    parts: what is held at the peak, which adds up to total_bytes. at: the moment of the peak.
    at_most: total_bytes and parts are upper bounds, because stages peak at different moments and
    the plan has no moments of its ranks. host_bytes: used from a device's share of its host.
    """

    rank: int
    stages: tuple[int, ...]
    parts: dict[str, int]
    total_bytes: int
    at: str
    at_most: bool
    capacity_bytes: int
    margin_bytes: int
    host_bytes: int
    host_capacity_bytes: int


class PlanMemory(BaseModel):
    """Memory of a plan by stage and rank.

    over_time: present if points were requested. is_simulated: the simulation of the step is stored.
    """

    plan: str
    stages: tuple[StageMemory, ...]
    ranks: tuple[RankMemory, ...]
    over_time: tuple[RankCurve, ...] = ()
    is_simulated: bool = False


def memory_of(plan: Plan) -> PlanMemory:
    """The memory view of a plan document."""
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
    whole, uses = plan.cost.memory_bytes, uses_of(plan, rank)
    stages = tuple(
        number for number, stage in enumerate(plan.stages) if stage.pipeline_rank == rank
    )
    moments = [moment for number in stages for moment in plan.stages[number].moments]
    parts = _sum_of(uses)
    if moments:
        peak = max(moments, key=lambda moment: moment.total)
        parts |= {name: getattr(peak, name) for name in PASSING}
    total = sum(parts.values())
    capacity = uses[0].capacity or whole.capacity
    return RankMemory(
        rank=rank,
        stages=stages,
        parts=parts,
        total_bytes=total,
        at=peak.at if moments else uses[0].moment,
        at_most=len(uses) > 1 and not moments,
        capacity_bytes=capacity,
        margin_bytes=capacity - total,
        host_bytes=sum(use.host for use in uses),
        host_capacity_bytes=uses[0].host_capacity or whole.host_capacity,
    )


def _sum_of(uses: list[MemoryUse]) -> dict[str, int]:
    """The parts of stages together; the reserve is per device, not per stage."""
    parts = [_parts(use) for use in uses]
    total = {name: sum(own[name] for own in parts) for name in parts[0]}
    return total | {"reserved": uses[0].reserved}


def _parts(use: MemoryUse) -> dict[str, int]:
    return {part: getattr(use, part) for part in MEMORY_PARTS}
