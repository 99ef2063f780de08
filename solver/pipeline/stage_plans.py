"""Plans of all stages of a pipeline, each on its own, and what they cost together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshwright.schema import Answer, Infeasible, Plan, Request
from solver.deadline import Deadline, Stop
from solver.pipeline.alike import alike, as_planned_for
from solver.pipeline.coarse import within
from solver.pipeline.configurations import Configuration
from solver.pipeline.price import Priced, priced
from solver.pipeline.staged import Staged
from solver.stage_planner import Place, Report, plan_stage

StagePlanner = Callable[[Request, Report | None, Stop, Place], Answer]

_ROUNDS = (
    4  # chosen: each takes what is missing from the stages' shares; the second is mostly enough
)


@dataclass(frozen=True, slots=True)
class StagePlans:
    """plans: of each stage alone, in their order. first: the stage whose plan that is."""

    configuration: Configuration
    priced: Priced
    plans: tuple[Plan, ...]
    first: tuple[int, ...]

    @property
    def ns(self) -> float:
        return self.priced.cost.step_ns

    @property
    def over_bytes(self) -> list[int]:
        """By rank: by how much it misses the memory of a device; nothing and less where it fits."""
        return [own.total - own.capacity for own in self.priced.of_ranks]


def plan_stages_that_fit(
    request: Request,
    configuration: Configuration,
    staged: Staged,
    shares: tuple[float, ...],
    deadline: Deadline,
    tolerance: float,
) -> StagePlans | Infeasible:
    """As `plan_stages`; where ranks hold more than their stages' searches count, again with less.

    A search counts what a microbatch saves until its last pass. What waits for the weights' half of
    a split backward pass can be more than that, and is known when there is a plan.
    """
    closest: StagePlans | None = None
    for _ in range(_ROUNDS):
        found = plan_stages(request, configuration, staged, shares, deadline, tolerance)
        if isinstance(found, Infeasible):
            return found if closest is None else _misses(closest)
        over = found.over_bytes
        if max(over) <= 0:
            return found
        if closest is None or max(over) < max(closest.over_bytes):
            closest = found
        shares = _less(shares, staged, over, request)
        if min(shares) <= 0 or deadline.is_over():
            break
    assert closest is not None
    return _misses(closest)


def _misses(closest: StagePlans) -> Infeasible:
    """That the stages' searches found nothing: not that there is nothing."""
    over = closest.over_bytes
    rank = over.index(max(over))
    memory = closest.priced.of_ranks[rank]
    return Infeasible(
        constraint="memory",
        detail=(
            "with what waits for the weights' half of the backward pass, pipeline rank "
            f"{rank} does not fit; a schedule that does not split it needs less"
        ),
        needed_bytes=memory.total - memory.reserved,
        available_bytes=memory.capacity - memory.reserved,
    )


def _less(
    shares: tuple[float, ...], staged: Staged, over: Sequence[int], request: Request
) -> tuple[float, ...]:
    """The shares of stages without what their ranks have too much, in equal parts."""
    count = staged.schedule.stages // staged.schedule.ranks
    usable = 1 - request.setup.memory_reserve
    limits = [part.topology.device.memory_bytes * usable for part in staged.parts]
    ranks = staged.schedule.rank_of
    return tuple(
        share - max(over[rank], 0) / (count * limits[rank])
        for share, rank in zip(shares, ranks, strict=True)
    )


def plan_stages(
    request: Request,
    configuration: Configuration,
    staged: Staged,
    shares: tuple[float, ...],
    deadline: Deadline,
    tolerance: float,
    planned: StagePlanner = plan_stage,
) -> StagePlans | Infeasible:
    """shares: see `Staged.request`. tolerance: of the search for each stage. planned: that search.

    Stages that are alike have one plan: for the one that holds most, in the least memory.
    """
    setups = [staged.setup_of(stage) for stage in range(len(staged.graphs))]
    first = alike(staged.graphs, request, setups, staged.places)
    different = sorted(set(first))
    found: dict[int, Plan] = {}
    for done, number in enumerate(different):
        members = [stage for stage, own in enumerate(first) if own == number]
        own = staged.request(request, number, min(shares[stage] for stage in members))
        own = within(own, deadline, 1 / (len(different) - done))
        held = max(staged.schedule.in_flight[stage] for stage in members)
        place = Place(held, staged.link(number), tolerance, frozenset(staged.sent(number)))
        answer = planned(own, None, deadline.stop, place)
        if answer.plan is None:
            why = answer.infeasible
            assert why is not None
            return why.model_copy(update={"detail": f"stage {number}: {why.detail}"})
        found[number] = answer.plan
    stages = [
        as_planned_for(found[own].stages[0], staged.graphs[own], staged.graphs[stage])
        for stage, own in enumerate(first)
    ]
    plans = tuple([found[own] for own in first])
    return StagePlans(configuration, priced(staged, stages, first), plans, tuple(first))
