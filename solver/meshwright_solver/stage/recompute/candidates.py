"""Plans with several recompute policies and numbers of microbatches: the fastest wins."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.schema import Answer, Considered, RecomputePolicy, RequestPatch

# the policies that `auto` tries if memory is short, the cheapest first
POLICIES: tuple[RecomputePolicy, ...] = ("cheap", "full")
FULL = 0.95  # chosen: of the memory; a plan that leaves more is not short of it


@dataclass(frozen=True, slots=True)
class _Try:
    policy: RecomputePolicy
    microbatches: int
    answer: Answer
    ops: int | None

    @property
    def request_patch(self) -> RequestPatch | None:
        """None for a policy with several variants, of which a request cannot name one."""
        if self.ops is not None:
            return None
        return {
            "recompute": {"policy": self.policy},
            "setup": {"microbatches": self.microbatches},
        }

    def considered(self, best_ns: float) -> Considered:
        plan, why = self.answer.plan, self.answer.infeasible
        ns = None if plan is None else plan.cost.step_ns
        many = "" if self.ops is None else f" ({self.ops})"
        return Considered(
            configuration=f"recompute {self.policy}{many}, {self.microbatches} microbatches",
            estimated_ns=ns or 0.0,
            cost_ns=ns,
            why=f"takes {ns / best_ns:.3f} times" if ns is not None else why.detail if why else "",
            request_patch=self.request_patch,
        )


@dataclass(slots=True)
class PolicyTrials:
    """has_recomputed: whether there is a plan that recomputes."""

    tries: list[_Try] = field(default_factory=list)

    @property
    def has_recomputed(self) -> bool:
        return any(trial.answer.plan is not None and trial.policy != "none" for trial in self.tries)

    def add(
        self, policy: RecomputePolicy, microbatches: int, answer: Answer, ops: int | None = None
    ) -> None:
        """ops: the number of recomputed ops, for a policy with several variants."""
        self.tries.append(_Try(policy, microbatches, answer, ops))

    def best(self) -> Answer:
        """The plan with the fastest step, with the other trials; without any, the last answer."""
        planned = [trial for trial in self.tries if trial.answer.plan is not None]
        if not planned:
            return self.tries[-1].answer
        best = min(
            planned, key=lambda trial: trial.answer.plan.cost.step_ns if trial.answer.plan else 0
        )
        plan = best.answer.plan
        if plan is None or not any(trial.policy != best.policy for trial in self.tries):
            return best.answer
        others = [trial.considered(plan.cost.step_ns) for trial in self.tries if trial is not best]
        search = plan.search.model_copy(update={"considered": tuple(others)})
        return best.answer.model_copy(update={"plan": plan.model_copy(update={"search": search})})
