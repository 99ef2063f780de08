"""The search of one problem over meshes, in two rounds.

The first round bounds the objective of every mesh. The second searches the most promising mesh
first, so that most others need no more than the comparison of their bound with the best plan.
The engines are those of the request's portfolio (`meshwright_solver.stage.engines.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite

from meshwright.schema import Mesh
from meshwright_solver.common.deadline import ENDLESS, Deadline, OutOfTime
from meshwright_solver.constraints.meshes import meshes_of
from meshwright_solver.folding.mesh_outcome import TOLERANCE, MeshOutcome, shown
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.uneven import Uneven
from meshwright_solver.search.core.outcome import MOST_LABELS, SearchBudget
from meshwright_solver.stage.engines.registry import ENGINES, portfolio_of
from meshwright_solver.stage.lower_bounds import work_bound_ns
from meshwright_solver.stage.mesh_candidate import MeshCandidate, late, release_worst
from meshwright_solver.stage.mesh_space import MeshSpaces
from meshwright_solver.stage.search_progress import SearchProgress

# A search that has a better plan offers the outcomes that it would end with.
OutcomesSoFar = Callable[[], list[MeshOutcome]]
Offer = Callable[[OutcomesSoFar], None]
# (mesh, whether cuts may be uneven) -> the least objective of any plan in ns, whatever the memory
Floors = dict[tuple[Mesh, bool], float]


class MeshSearch:
    """One problem, searched mesh by mesh for one request."""

    def __init__(
        self,
        spaces: MeshSpaces,
        progress: SearchProgress,
        *,
        is_short: bool = False,
        tolerance: float = TOLERANCE,
        max_labels: int = MOST_LABELS,
        floors: Floors | None = None,
        offer: Offer = lambda _: None,
    ) -> None:
        """is_short: whether the portfolio's fallback comes first. tolerance: the gap at which the
        search of a mesh ends. max_labels: see SearchBudget.

        floors: known from searches of the same problem with other memory; this search adds its own.
        offer: called whenever the search has a better plan.
        """
        self.spaces = spaces
        self.progress = progress
        self._portfolio = portfolio_of(spaces.request.solver)
        self._deadline = spaces.deadline
        self._is_short = is_short
        self._tolerance = tolerance
        self._max_labels = max_labels
        self._floors: Floors = {} if floors is None else floors
        self._offer = offer

    def run(self, candidates: Sequence[Mesh]) -> list[MeshOutcome]:
        """The outcome of every mesh, with and without uneven cuts if both are possible."""
        variants = [
            (mesh, variant) for mesh in candidates for variant in self.spaces.variants(mesh)
        ]
        outcomes: list[MeshOutcome] = []
        fallbacks: list[MeshOutcome] = []
        if self._portfolio.fallback is not None and self._is_short:
            fallbacks += self._fallback(self._deadline)
        steps = 2 * len(variants)
        bounded: list[MeshCandidate] = []
        for mesh, problem in variants:
            budget = self._start_step(mesh, len(bounded), steps, fallbacks)
            bounded.append(self._first_round(mesh, problem, budget))
            release_worst(bounded)
        bounded.sort(key=lambda candidate: candidate.floor_ns)

        def so_far() -> list[MeshOutcome]:
            unreached = [candidate.unfinished() for candidate in bounded[len(outcomes) :]]
            return self._bounded(fallbacks, [*outcomes, *unreached])

        if fallbacks:
            self._offer(so_far)
        for done, candidate in enumerate(bounded, len(bounded)):
            budget = self._start_step(candidate.space.mesh, done, steps, (*fallbacks, *outcomes))
            outcomes.append(candidate.search(budget, self.progress))
            if outcomes[-1].outcome.choice is not None:
                self._offer(so_far)
        if self._is_stopped_without_plan((*fallbacks, *outcomes)):
            fallbacks += self._fallback(ENDLESS)
        self.progress.start_phase("done", done=steps, total=steps)
        return self._bounded(fallbacks, outcomes)

    def simplicity_budget(self, best: MeshOutcome) -> SearchBudget | None:
        """The budget of the search for a simpler plan than the best; None where there is none."""
        is_whole = self._portfolio.decides_choice and ENGINES[best.found_by].is_simplified
        if not is_whole or self._deadline.is_over():
            return None
        return SearchBudget(
            seconds=self._deadline.left_s(), max_labels=self._max_labels, stop=self._deadline.stop
        )

    def _first_round(self, mesh: Mesh, problem: Problem, budget: SearchBudget) -> MeshCandidate:
        """A mesh with all bounds that hold without the memory limit."""
        space = self.spaces.on(mesh, problem)
        candidate = MeshCandidate(space, self._portfolio.engines, outcome=space.refusal())
        if candidate.outcome is None and self._deadline.is_over():
            candidate.outcome = late(space.models)
        if candidate.outcome is not None or self._portfolio.first.floor is None:
            return candidate
        key = mesh, problem.uneven != Uneven()
        if key in self._floors:
            candidate.floor_ns = self._floors[key]  # it is eliminated in the second round, or never
            return candidate
        try:
            candidate.find_floor(budget, self.progress)
        except OutOfTime:
            candidate.outcome = late(space.models)
        if candidate.outcome is None and isfinite(candidate.floor_ns):
            self._floors[key] = candidate.floor_ns
        return candidate

    def _fallback(self, deadline: Deadline) -> Iterator[MeshOutcome]:
        """A plan of the portfolio's fallback on the coarsest mesh, if it finds one."""
        engine = self._portfolio.fallback
        assert engine is not None
        mesh = meshes_of(self.spaces.request, 1)[0]
        space = self.spaces.on(mesh, next(self.spaces.variants(mesh)), deadline)
        if space.refusal() is not None:
            return
        budget = SearchBudget(deadline.left_s(), tolerance=self._tolerance, stop=deadline.stop)
        outcome = engine.search(space, budget, self.progress)
        if outcome.outcome.choice is not None:
            yield outcome

    def _is_stopped_without_plan(self, outcomes: Sequence[MeshOutcome]) -> bool:
        """Whether the caller stopped the search before it had a plan, and one may exist."""
        has_plan = any(outcome.outcome.choice is not None for outcome in outcomes)
        is_open = any(outcome.outcome.status == "unknown" for outcome in outcomes)
        has_fallback = self._portfolio.fallback is not None
        return has_fallback and self._deadline.stop() and is_open and not has_plan

    def _bounded(
        self, fallbacks: list[MeshOutcome], outcomes: list[MeshOutcome]
    ) -> list[MeshOutcome]:
        """All outcomes. An outcome without a bound gets that of the work alone."""
        if any(not outcome.left_out for outcome in outcomes):
            # their bounds hold on the coarsest mesh too, which is a special case of each
            fallbacks = [_with_bound(outcome, inf) for outcome in fallbacks]
        return [
            outcome
            if outcome.outcome.lower_bound_ns > -inf or outcome.left_out
            else _with_bound(outcome, work_bound_ns(outcome.models, self.spaces.folding))
            for outcome in (*fallbacks, *outcomes)
        ]

    def _start_step(
        self, mesh: Mesh, done: int, steps: int, outcomes: Sequence[MeshOutcome]
    ) -> SearchBudget:
        """Report the next step; the budget of its engine, an equal share of the remaining time."""
        best_ns = min((outcome.outcome.cost_ns for outcome in outcomes), default=inf)
        known_ns = min(best_ns, self.progress.best_ns)
        self.progress.start_phase(
            f"{shown(mesh)}, {self.spaces.problem.microbatches} microbatch(es)",
            done=done,
            total=steps,
            incumbent_ns=known_ns if known_ns < inf else None,
        )
        left_s = self._deadline.left_s()
        return SearchBudget(
            seconds=None if left_s is None else left_s / (steps - done),
            tolerance=self._tolerance,
            max_labels=self._max_labels,
            cutoff_ns=best_ns,
            stop=self._deadline.stop,
        )


def _with_bound(outcome: MeshOutcome, bound_ns: float) -> MeshOutcome:
    return replace(outcome, outcome=replace(outcome.outcome, lower_bound_ns=bound_ns))
