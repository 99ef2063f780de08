"""The problem of one stage of a plan on the plan's own mesh, to be searched again and again.

What a search decides before it decides strategies stays as the plan has it: mesh, microbatches,
what is done again, uneven cuts, cuts between stages. What passes by is left room for as much as
it takes in the plan; the judge says afterwards whether that was enough.
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
    """outcome: of the search. folded: what it means, judged, where it has a choice."""

    outcome: Outcome
    folded: FoldedPlan | None

    @property
    def fits(self) -> bool:
        return self.folded is not None and self.folded.over_bytes <= 0


@dataclass(frozen=True)
class Frame:
    """stage: as planned. cost: of that alone. assigned: position of op in the whole stage's problem
    -> its strategy in `whole`, the models of the stage. spaces: of the folded problem, on whose
    `models` all is searched again. other_bytes: what other stages take of the devices."""

    stage: Stage
    cost: Cost
    whole: Models
    assigned: Mapping[int, Codes]
    spaces: MeshSpaces
    models: Models
    given: Filters
    folding: Folding
    deadline: Deadline
    other_bytes: int

    def filters_without(self, pinned: frozenset[int]) -> Filters:
        """What is allowed when the ops at these positions have no pin."""
        kept = {k: pin for k, pin in self.spaces.pins.items() if k not in pinned}
        spaces, models = self.spaces, self.models
        return filters(models.problem, spaces.request, kept, spaces.values, models.mesh)

    def solve(self, allowed: Mapping[int, StrategyFilter]) -> FixedMeshOutcome:
        """The best plan in which ops are what they are allowed to be, by position; raises
        OutOfTime."""
        limit = self.models.problem.memory_limit_bytes
        found = self._solve(allowed, limit)
        if found.folded is not None and not found.fits:
            # what passes by takes more than in the plan
            again = self._solve(allowed, limit - found.folded.over_bytes)
            return again if again.fits else found
        return found

    def least_ns(self, allowed: Mapping[int, StrategyFilter]) -> float | None:
        """What no plan costs less than, whatever the memory; None where nobody knows."""
        found = self._solve(allowed, None).outcome
        return found.lower_bound_ns if found.lower_bound_ns > 0 else None

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
            found = dynamic_programming(unfolding.graph, budget)
        except TableTooLarge:
            found = message_search(unfolding.graph, budget)
        if found.choice is None:
            if found.status != "infeasible":
                raise OutOfTime
            return FixedMeshOutcome(found, None)
        return FixedMeshOutcome(found, FoldedPlan(self.models, unfolding, found.choice))


def frame_of(
    plan: Plan,
    number: int,
    request: Request,
    calibration: Calibration | None,
    marks: Mapping[str, str],
    deadline: Deadline,
) -> Frame:
    """The frame of stage `number`. request: what the plan says it answers. marks: ops that are to
    be told apart from others alike, by name.

    deadline: of the searches in it. Raises PlanError where plan and documents do not fit.
    """
    stage = plan.stages[number]
    own = calibration_of(plan, calibration)
    if plan.schedule is None:
        request = with_sparse_tables(request)
        request = request.model_copy(update={"topology": group_of(plan, request.topology)})
        alone = build_problem(
            request.graph, request.topology, request.setup, own, plan.microbatches,
            copies=plan.copies,
        )  # fmt: skip
        other_bytes = 0
    else:
        staged = Staged.of_plan(plan, request.graph, request.topology, request.setup, own)
        request = with_sparse_tables(staged.request(request, number))
        alone = staged.problem(number)
        ranks = stages_on(staged.schedule.rank_of, staged.schedule.rank_of[number])
        # peaks of stages add up to more than the rank's own, which the fullest rank's bounds
        together = plan.cost.memory_bytes.total - (stage.memory_bytes or MemoryUse()).total
        other_bytes = min(sum(_taken(plan.stages[s]) for s in ranks if s != number), together)
    graph = for_inference(request.graph, request.setup)
    request = request.model_copy(update={"graph": graph})
    again = RecomputedOps.of(stage.recompute)
    ways = Foldings(graph).of(marked({**marks_of(request), **_both(request, marks)}, again))
    whole = Models.of_stage(alone, stage)
    assignment = assignment_of_stage(whole, stage)
    cost = cost_of_all(whole, assignment)
    spare = float(cost.memory_bytes.passing + other_bytes)
    for folding in ways:
        problem = replace(
            _again(alone, folding.graph, own, again), whole=graph, spare_bytes=spare
        ).of_stage(stage)
        spaces = MeshSpaces(request, folding, problem, ENDLESS)
        space = spaces.on(stage.mesh, problem)
        models, given = space.models, space.filters
        try:
            Unfolding(folding, lower(models, given.all, None))
        except NotAlikeError:
            continue
        return Frame(
            stage, cost, whole, assignment.ops, spaces, models, given, folding, deadline,
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
    """What a plan says that it answers."""
    request = Request(
        graph=graph, topology=topology, setup=setup, calibration=calibration, **dict(plan.wishes)
    )
    return with_copies(request, plan.copies) if plan.copies is not None else request


def _again(alone: Problem, graph: Graph, calibration: Calibration, again: RecomputedOps) -> Problem:
    """The problem of another graph in the same place."""
    return build_problem(
        graph, alone.topology, alone.setup, calibration, alone.microbatches,
        in_flight=alone.in_flight / alone.copies, stage_link=alone.stage_link,
        sent=alone.sent, remade=again, copies=alone.copies,
    )  # fmt: skip


def _both(request: Request, marks: Mapping[str, str]) -> dict[str, object]:
    own = marks_of(request)
    return {name: (own.get(name), mark) for name, mark in marks.items()}


def _taken(stage: Stage) -> int:
    use = stage.memory_bytes or MemoryUse()
    return use.total - use.reserved
