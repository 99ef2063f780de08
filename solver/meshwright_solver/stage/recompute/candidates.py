"""Plans with several recompute policies and numbers of microbatches: the fastest wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

from meshwright.schema import Answer, Considered, RecomputePolicy, RequestPatch
from meshwright_solver.stage.faster_plan import with_faster_plan
from meshwright_solver.stage.mesh_alternatives import (
    MOST_CONSIDERED,
    alternative_of,
    best_of_meshes,
    planned_why,
)

# the policies that `auto` tries if memory is short, the cheapest first
POLICIES: tuple[RecomputePolicy, ...] = ("cheap", "full")
FULL = 0.95  # chosen: of the memory; a plan that leaves more is not short of it
# chosen: the share of a step in which nothing computes, from which more microbatches may pay
WAITING = 0.03
# chosen: configurations that coarse meshes tell apart no better, and how many are searched again
NEAR = 1.02
MOST_PROMISING = 3
# published: of three passes of equal length, without the fourth (Korthikanti et al. 2022)
WITHOUT_FULL = 0.75
# chosen: the share of a step that remains without recomputation
LEFT = 0.6
# chosen: of the compute of a plan without recomputation; the forward pass is a third of it, and
# outputs of blocks and their last ops are saved
AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration with its answer.

    ops: the number of recomputed ops, for a policy with several variants. blocks: the number of
    blocks that recompute, None for all.
    """

    policy: RecomputePolicy
    microbatches: int
    answer: Answer
    ops: int | None = None
    blocks: int | None = None

    @property
    def step_ns(self) -> float:
        """inf without a plan."""
        return inf if self.answer.plan is None else self.answer.plan.cost.step_ns

    @property
    def request_patch(self) -> RequestPatch | None:
        """None for a policy with several variants, of which a request cannot name one."""
        if self.ops is not None:
            return None
        recompute: dict[str, int | str | None] = {"policy": self.policy}
        if self.blocks is not None:
            recompute["blocks"] = self.blocks
        return {"recompute": recompute, "setup": {"microbatches": self.microbatches}}

    def considered(self, best_ns: float) -> Considered:
        plan, why = self.answer.plan, self.answer.infeasible
        ns = None if plan is None else plan.cost.step_ns
        return Considered(
            configuration=trial_text(self.policy, self.microbatches, self.ops, self.blocks),
            estimated_ns=ns or 0.0,
            cost_ns=ns,
            memory_bytes=None if plan is None else plan.cost.memory_bytes.total,
            why=planned_why(ns, best_ns) if ns is not None else why.detail if why else "",
            request_patch=self.request_patch,
        )


def trial_text(
    policy: object, microbatches: object, ops: object = None, blocks: object = None
) -> str:
    """A configuration as text. ops, blocks: as in `Trial`."""
    many = "" if ops is None else f" ({ops})"
    many += "" if blocks is None else f" in {blocks} blocks"
    return f"recompute {policy}{many}, {microbatches} microbatches"


@dataclass(slots=True)
class PolicyTrials:
    """The answers of configurations, in the order in which they were tried."""

    tries: list[Trial] = field(default_factory=list)

    def add(
        self, policy: RecomputePolicy, microbatches: int, answer: Answer, ops: int | None = None
    ) -> bool:
        """Add an answer; whether the policy may have a faster plan in more microbatches.

        ops: the number of recomputed ops, for a policy with several variants.
        """
        before_ns = min((t.step_ns for t in self.tries if t.policy == policy), default=inf)
        best_ns = self.step_ns
        self.tries.append(Trial(policy, microbatches, answer, ops))
        plan, why = answer.plan, answer.infeasible
        if plan is None:
            return why is not None and why.constraint == "memory"
        step_ns, waited_ns = plan.cost.step_ns, sum(plan.cost.exposed_ns.values())
        may_win = waited_ns > WAITING * step_ns and step_ns - waited_ns < best_ns
        return step_ns < before_ns and may_win

    def may_gain(self, policy: RecomputePolicy, beaten_ns: float) -> bool:
        """Whether a policy may have a faster plan than `beaten_ns`: `full` repeats most ops."""
        plain = [
            trial.answer.plan.cost.compute_ns
            for trial in self.tries
            if trial.policy == "none" and trial.answer.plan is not None
        ]
        if policy != "full" or not plain:
            return True
        return (1 + AGAIN) * min(plain) < beaten_ns

    def may_gain_by_more(self, microbatches: int) -> bool:
        """Whether more than so many microbatches may have the fastest plan.

        With less recomputation, which they have memory for, most of the step remains.
        """
        steps_ns = [t.step_ns for t in self.tries if t.microbatches == microbatches]
        least_ns = min(steps_ns, default=inf)
        return least_ns == inf or LEFT * least_ns < self.step_ns

    def answer_of(self, policy: RecomputePolicy, microbatches: int) -> Answer | None:
        """The answer of a configuration; None if it was not tried."""
        for trial in self.tries:
            if (trial.policy, trial.microbatches) == (policy, microbatches):
                return trial.answer
        return None

    @property
    def has_plan(self) -> bool:
        return bool(self._planned)

    @property
    def step_ns(self) -> float:
        """Of the fastest plan; inf without one."""
        return min((trial.step_ns for trial in self.tries), default=inf)

    @property
    def hoped_ns(self) -> float:
        """The step that the fastest plan would have without full recomputation."""
        return min(
            (WITHOUT_FULL if t.policy == "full" else 1.0) * t.step_ns for t in self.tries
        )  # fmt: skip

    def promising(self) -> list[tuple[RecomputePolicy, int]]:
        """The configurations about as fast as the best, the fastest first. There is a plan."""
        planned = sorted(self._planned, key=lambda trial: trial.step_ns)
        near = [t for t in planned if t.step_ns <= NEAR * planned[0].step_ns][:MOST_PROMISING]
        return [(trial.policy, trial.microbatches) for trial in near]

    @property
    def fastest(self) -> Trial | None:
        """The trial with the fastest step; None without a plan."""
        return min(self._planned, key=lambda trial: trial.step_ns, default=None)

    def refined(self, fine: PolicyTrials) -> PolicyTrials:
        """These trials and finer ones, with the proofs of the finer."""
        tries = {(trial.policy, trial.microbatches): trial for trial in self.tries}
        for trial in fine.tries:
            key = trial.policy, trial.microbatches
            coarse = tries[key]
            answer = with_faster_plan(trial.answer, coarse.answer)
            tries[key] = replace(trial, answer=answer)
        return PolicyTrials(list(tries.values()))

    def best(self) -> Answer:
        """The plan with the fastest step, with the other trials; without any, the last answer."""
        best = self.fastest
        if best is None:
            return self.tries[-1].answer
        plan, others = best.answer.plan, [trial for trial in self.tries if trial is not best]
        if plan is None:
            return best.answer
        considered = tuple(trial.considered(plan.cost.step_ns) for trial in others)
        room = max(0, MOST_CONSIDERED - len(considered))
        considered += best_of_meshes(self._on_meshes(), plan, room)
        if considered == plan.search.considered:
            return best.answer
        search = plan.search.model_copy(update={"considered": considered})
        return best.answer.model_copy(update={"plan": plan.model_copy(update={"search": search})})

    def _on_meshes(self) -> Iterator[Considered]:
        """The plans of all trials, and their alternatives on other meshes."""
        for trial in self._planned:
            if trial.answer.plan is not None:
                yield alternative_of(trial.answer.plan)
                yield from trial.answer.plan.search.considered

    @property
    def _planned(self) -> list[Trial]:
        return [trial for trial in self.tries if trial.answer.plan is not None]
