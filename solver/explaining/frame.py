"""The problem of one stage of a plan on the plan's own mesh, to be searched again and again.

What a search decides before it decides strategies stays as the plan has it: mesh, microbatches,
what is done again, uneven cuts, cuts between stages. What passes by is left room for as much as
it takes in the plan; the judge says afterwards whether that was enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from costmodel.calibrations import calibration_of
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
from meshwright.schema.pipelining.schedule import stages_on
from solver.assignment import Codes
from solver.constraints import Filters, filters
from solver.deadline import ENDLESS, Deadline, OutOfTime
from solver.dynamic_programming import dynamic_programming
from solver.elimination.eliminator import TableTooLarge
from solver.evaluate import cost_of_all
from solver.folded_plan import FoldedPlan
from solver.folding import Folding
from solver.inference import for_inference
from solver.known_foldings import Foldings
from solver.lowering import lower
from solver.mesh_outcome import TOLERANCE, History
from solver.mesh_search import MeshSearch
from solver.message_search import message_search
from solver.models import Models
from solver.outcome import Budget, Outcome
from solver.pins import Allowed
from solver.pipeline.placement import group_of
from solver.pipeline.staged import Staged
from solver.problem import Problem, build_problem
from solver.remade import Remade
from solver.sparse_tables import with_sparse_tables
from solver.stage_assignment import assignment_of_stage
from solver.stage_planner import marked, marks_of
from solver.turns import with_copies
from solver.unfolding import Unfolding
from solver.unrolling import NotAlikeError

# chosen: a tenth of a second; a search for a plan has ten times as many
MOST_LABELS = 50_000


@dataclass(frozen=True, slots=True)
class Solved:
    """outcome: of the search. folded: what it means, judged, where it has a choice."""

    outcome: Outcome
    folded: FoldedPlan | None

    @property
    def fits(self) -> bool:
        return self.folded is not None and self.folded.over_bytes <= 0


@dataclass(frozen=True)
class Frame:
    """stage: as planned. cost: of that alone. assigned: position of op in the whole stage's problem
    -> its strategy in `whole`, the models of the stage. search: of the folded problem, on whose
    `models` all is searched again. other_bytes: what other stages take of the devices."""

    stage: Stage
    cost: Cost
    whole: Models
    assigned: Mapping[int, Codes]
    search: MeshSearch
    models: Models
    given: Filters
    folding: Folding
    deadline: Deadline
    other_bytes: int

    def filters_without(self, pinned: frozenset[int]) -> Filters:
        """What is allowed when the ops at these positions have no pin."""
        kept = {k: pin for k, pin in self.search.pins.items() if k not in pinned}
        search, models = self.search, self.models
        return filters(models.problem, search.request, kept, search.values, models.mesh)

    def solve(self, allowed: Mapping[int, Allowed]) -> Solved:
        """The best plan in which ops are what they are allowed to be, by position; raises
        OutOfTime."""
        limit = self.models.problem.memory_limit_bytes
        found = self._solve(allowed, limit)
        if found.folded is not None and not found.fits:
            # what passes by takes more than in the plan
            again = self._solve(allowed, limit - found.folded.over_bytes)
            return again if again.fits else found
        return found

    def least_ns(self, allowed: Mapping[int, Allowed]) -> float | None:
        """What no plan costs less than, whatever the memory; None where nobody knows."""
        found = self._solve(allowed, None).outcome
        return found.lower_bound_ns if found.lower_bound_ns > 0 else None

    def _solve(self, allowed: Mapping[int, Allowed], limit_bytes: float | None) -> Solved:
        self.deadline.check()
        unfolding = Unfolding(self.folding, lower(self.models, allowed, limit_bytes))
        budget = Budget(
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
            return Solved(found, None)
        return Solved(found, FoldedPlan(self.models, unfolding, found.choice))


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
    again = Remade.of(stage.recompute)
    ways = Foldings(graph).of(marked({**marks_of(request), **_both(request, marks)}, again))
    whole = Models.of_stage(alone, stage)
    assignment = assignment_of_stage(whole, stage)
    cost = cost_of_all(whole, assignment)
    spare = float(cost.memory_bytes.passing + other_bytes)
    for folding in ways:
        problem = replace(
            _again(alone, folding.graph, own, again), whole=graph, spare_bytes=spare
        ).of_stage(stage)
        search = MeshSearch(request, folding, problem, ENDLESS, History(), lambda _: None)
        models, given = search.models_on(stage.mesh, problem, ENDLESS)
        try:
            Unfolding(folding, lower(models, given.all, None))
        except NotAlikeError:
            continue
        return Frame(
            stage, cost, whole, assignment.ops, search, models, given, folding, deadline,
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


def _again(alone: Problem, graph: Graph, calibration: Calibration, again: Remade) -> Problem:
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
