"""Reduction of activation recomputation in the stages of a planned pipeline with free memory.

Drafts of the whole graph decide the recompute policy of stages, but a stage's plan may need less
memory than its draft. Each stage with recomputation is therefore planned with the next lighter
policy, in all memory of its rank. Plans that fit together and make the step shorter replace the
old ones, and the next policy is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from meshwright.schema import RecomputePolicy, Request
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.parallel_map import fanned
from meshwright_solver.pipeline.stage_plans import (
    StageAnswer,
    StagePlans,
    StageTask,
    StageWishes,
    Wish,
    place_of,
    plan_with_policy,
)
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.stage.recompute.candidates import POLICIES

_LIGHTER: Mapping[RecomputePolicy, RecomputePolicy] = dict(
    zip(POLICIES, ("none", *POLICIES), strict=False)
)
_TRIED = 8  # chosen: stages a round, the longest first; each about a second


@dataclass(frozen=True, slots=True)
class RecomputeReduction:
    """The reduction for one pipeline. request, wishes, tolerance: those of its stage plans."""

    request: Request
    staged: Staged
    wishes: StageWishes
    tolerance: float
    deadline: Deadline
    executor: Executor | None = None

    def of(self, plans: StagePlans) -> StagePlans:
        """The plans, or faster ones with lighter stages."""
        may = set(plans.first)
        while may and not self.deadline.is_over():
            lighter = dict(self._lighter_answers(plans, may))
            if lighter:
                plans = self._merged(plans, lighter)
            may = {number for number in lighter if plans.alone[number] is lighter[number]}
        return plans

    def _lighter_answers(
        self, plans: StagePlans, may: set[int]
    ) -> Iterator[tuple[int, StageAnswer]]:
        """Faster answers with the next lighter policy, by stage, the longest stages first."""
        policies = {stage: _policy(plans.alone[stage]) for stage in may}
        longest = sorted(may, key=lambda stage: (-_step_ns(plans.alone[stage]), stage))
        tried = [stage for stage in longest if policies[stage] in _LIGHTER][:_TRIED]
        tasks = []
        for number in tried:
            wish = self._wish(plans, number)
            place = place_of(self.staged, wish, self.wishes, self.tolerance)
            policy = _LIGHTER[policies[number]]
            tasks.append(StageTask.of(self.request, self.staged, wish, place, policy))
        answers = fanned(plan_with_policy, tasks, self.deadline, self.executor)
        for number, stage_answer in zip(tried, answers, strict=False):
            if stage_answer.answer.plan and _step_ns(stage_answer) < _step_ns(plans.alone[number]):
                yield number, stage_answer

    def _wish(self, plans: StagePlans, number: int) -> Wish:
        """The wish for a stage: its memory and its part of its rank's free memory.

        The search itself counts transient memory; buffers of a split backward pass count as saved.
        """
        order, priced = self.staged.schedule, plans.priced
        shares, held = [], []
        for stage, like in enumerate(plans.first):
            if like == number:
                rank, memory = order.rank_of[stage], priced.stages[stage].memory_bytes
                assert memory is not None
                spare = -plans.over_bytes[rank] * order.ranks / order.stages
                shares.append(
                    (memory.total - memory.reserved + spare) / (memory.capacity - memory.reserved)
                )
                held.append(order.in_flight[stage])
        return number, min(1.0, *shares), max(held), 0.0

    def _merged(self, plans: StagePlans, lighter: Mapping[int, StageAnswer]) -> StagePlans:
        """The plans with all lighter answers if they fit together, else with those that fit."""
        together = self._with(plans, lighter.items())
        if together is not None:
            return together
        for item in lighter.items():
            plans = self._with(plans, [item]) or plans
        return plans

    def _with(
        self, plans: StagePlans, lighter: Iterable[tuple[int, StageAnswer]]
    ) -> StagePlans | None:
        """The plans with these lighter answers; None unless they fit and are faster."""
        alone = {**plans.alone, **dict(lighter)}
        combined = StagePlans.of(plans.configuration, self.staged, alone, plans.first)
        return combined if max(combined.over_bytes) <= 0 and combined.ns < plans.ns else None


def _policy(stage_answer: StageAnswer) -> RecomputePolicy:
    assert stage_answer.answer.plan is not None
    again = stage_answer.answer.plan.stages[0].recompute
    return "none" if again is None else again.policy


def _step_ns(stage_answer: StageAnswer) -> float:
    assert stage_answer.answer.plan is not None
    return stage_answer.answer.plan.cost.step_ns
