"""The problem of one stage on the mesh of its plan, for repeated searches.

Decisions outside the strategy search stay as in the plan: mesh, microbatches, activation
recomputation, uneven cuts, cuts between stages. The memory limit leaves room for the transient
memory of the plan; the evaluator checks afterwards whether the room suffices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meshwright.schedules.schedule import stages_on
from meshwright.schema import (
    Calibration,
    Cost,
    Graph,
    MemoryUse,
    Plan,
    Request,
    Setup,
    Stage,
    Topology,
)
from meshwright_costmodel.calibrations import calibration_of
from meshwright_solver.common.deadline import ENDLESS, Deadline, OutOfTime
from meshwright_solver.constraints.strategy_filters import Filters, filters
from meshwright_solver.evaluation.accounting.assignment import Codes
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.evaluate import cost_of_all
from meshwright_solver.folding.fold import Folding
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.folding_cache import Foldings
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.folding.unroll import NotAlikeError
from meshwright_solver.lowering.lower import lower
from meshwright_solver.pipeline.rank_placement import group_of
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.interleaving import with_copies
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.message_passing.message_search import message_search
from meshwright_solver.stage.mesh_space import MeshSpaces
from meshwright_solver.stage.op_marks import marked, marks_of
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter
from meshwright_solver.strategies.sparse_tables import with_sparse_tables

# chosen: a tenth of a second; a search for a plan has ten times as many
MOST_LABELS = 50_000


@dataclass(frozen=True, slots=True)
class FixedMeshOutcome:
    """The outcome of one search.

    folded: the evaluated plan; None if the search has no choice.
    """

    outcome: Outcome
    folded: FoldedPlan | None

    @property
    def fits(self) -> bool:
        return self.folded is not None and self.folded.over_bytes <= 0


@dataclass(frozen=True)
class Frame:
    """The fixed mesh of a stage with the folded problem for further searches.

    stage: as planned. cost: of the stage alone. whole: models of the unfolded stage. assigned:
    strategies in `whole` by position of op. spaces, models, filters: of the folded problem.
    other_bytes: memory of other stages on the same devices.
    """

    stage: Stage
    cost: Cost
    whole: Models
    assigned: Mapping[int, Codes]
    spaces: MeshSpaces
    models: Models
    filters: Filters
    folding: Folding
    deadline: Deadline
    other_bytes: int

    def filters_without(self, pinned: frozenset[int]) -> Filters:
        """The filters without the pins of the ops at these positions."""
        pins = {k: pin for k, pin in self.spaces.pins.items() if k not in pinned}
        spaces, models = self.spaces, self.models
        return filters(models.problem, spaces.request, pins, spaces.values, models.mesh)

    def solve(self, allowed: Mapping[int, StrategyFilter]) -> FixedMeshOutcome:
        """The best plan within these filters by position of op; raises OutOfTime."""
        limit = self.models.problem.memory_limit_bytes
        outcome = self._solve(allowed, limit)
        if outcome.folded is not None and not outcome.fits:
            # the transient memory exceeds that of the plan
            again = self._solve(allowed, limit - outcome.folded.over_bytes)
            return again if again.fits else outcome
        return outcome

    def least_ns(self, allowed: Mapping[int, StrategyFilter]) -> float | None:
        """A lower bound of the objective without a memory limit; None if the search has none."""
        outcome = self._solve(allowed, None).outcome
        return outcome.lower_bound_ns if outcome.lower_bound_ns > 0 else None

    def _solve(
        self, allowed: Mapping[int, StrategyFilter], limit_bytes: float | None
    ) -> FixedMeshOutcome:
        self.deadline.check()
        unfolding = Unfolding(self.folding, lower(self.models, allowed, limit_bytes))
        budget = SearchBudget(
            seconds=self.deadline.left_s(),
            tolerance=TOLERANCE,
            max_labels=MOST_LABELS,
            stop=self.deadline.stop,
        )
        try:
            outcome = dynamic_programming(unfolding.graph, budget)
        except TableTooLarge:
            outcome = message_search(unfolding.graph, budget)
        if outcome.choice is None:
            if outcome.status != "infeasible":
                raise OutOfTime
            return FixedMeshOutcome(outcome, None)
        return FixedMeshOutcome(outcome, FoldedPlan(self.models, unfolding, outcome.choice))


def frame_of(
    plan: Plan,
    number: int,
    request: Request,
    calibration: Calibration | None,
    marks: Mapping[str, str],
    deadline: Deadline,
) -> Frame:
    """The frame of stage `number`.

    request: from the wishes of the plan. marks: by name, ops that folding does not merge with
    equal ones. deadline: of all searches in the frame. Raises PlanError if the plan does not fit
    the documents.
    """
    stage = plan.stages[number]
    measured = calibration_of(plan, calibration)
    if plan.schedule is None:
        request = with_sparse_tables(request)
        request = request.model_copy(update={"topology": group_of(plan, request.topology)})
        alone = build_problem(
            request.graph, request.topology, request.setup, measured, plan.microbatches,
            copies=plan.copies,
        )  # fmt: skip
        other_bytes = 0
    else:
        staged = Staged.of_plan(plan, request.graph, request.topology, request.setup, measured)
        request = with_sparse_tables(staged.request(request, number))
        alone = staged.problem(number)
        ranks = stages_on(staged.schedule.rank_of, staged.schedule.rank_of[number])
        # the sum of stage peaks exceeds the rank's peak, which is at most that of the fullest rank
        together = plan.cost.memory_bytes.total - (stage.memory_bytes or MemoryUse()).total
        other_bytes = min(sum(_used_bytes(plan.stages[s]) for s in ranks if s != number), together)
    graph = for_inference(request.graph, request.setup)
    request = request.model_copy(update={"graph": graph})
    again = RecomputedOps.of(stage.recompute)
    ways = Foldings(graph).of(marked({**marks_of(request), **_joint_marks(request, marks)}, again))
    whole = Models.of_stage(alone, stage)
    assignment = assignment_of_stage(whole, stage)
    cost = cost_of_all(whole, assignment)
    spare = float(cost.memory_bytes.passing + other_bytes)
    for folding in ways:
        problem = replace(
            _problem_of(alone, folding.graph, measured, again), whole=graph, spare_bytes=spare
        ).of_stage(stage)
        spaces = MeshSpaces(request, folding, problem, find_values(problem), ENDLESS)
        space = spaces.on(stage.mesh, problem)
        models, allowed = space.models, space.filters
        try:
            Unfolding(folding, lower(models, allowed.all, None))
        except NotAlikeError:
            continue
        return Frame(
            stage, cost, whole, assignment.ops, spaces, models, allowed, folding, deadline,
            other_bytes,
        )  # fmt: skip
    raise AssertionError("the last folding folds nothing")


def request_of(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
) -> Request:
    """The request that a plan answers, from its recorded wishes."""
    request = Request(
        graph=graph, topology=topology, setup=setup, calibration=calibration, **dict(plan.wishes)
    )
    return with_copies(request, plan.copies) if plan.copies is not None else request


def _problem_of(
    alone: Problem, graph: Graph, calibration: Calibration, again: RecomputedOps
) -> Problem:
    """The problem of a folded graph at the stage's position in the pipeline."""
    return build_problem(
        graph, alone.topology, alone.setup, calibration, alone.microbatches,
        in_flight=alone.in_flight / alone.copies, stage_link=alone.stage_link,
        sent=alone.sent, remade=again, copies=alone.copies,
    )  # fmt: skip


def _joint_marks(request: Request, marks: Mapping[str, str]) -> dict[str, object]:
    mark_of = marks_of(request)
    return {name: (mark_of.get(name), mark) for name, mark in marks.items()}


def _used_bytes(stage: Stage) -> int:
    use = stage.memory_bytes or MemoryUse()
    return use.total - use.reserved
