"""Plans of all stages of a pipeline, each on its own, and what they cost together."""

from __future__ import annotations

from collections.abc import Callable
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
    first = alike(staged.graphs, request, setups)
    different = sorted(set(first))
    found: dict[int, Plan] = {}
    for done, number in enumerate(different):
        members = [stage for stage, own in enumerate(first) if own == number]
        own = staged.request(request, number, min(shares[stage] for stage in members))
        own = within(own, deadline, 1 / (len(different) - done))
        held = max(staged.schedule.in_flight[stage] for stage in members)
        place = Place(held, staged.link, tolerance, frozenset(staged.sent(number)))
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
