"""A plan before it is written for every layer: in portions of the folded graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from meshwright.schema import Cost, Stage
from meshwright.schema.collector import uncollected
from solver.evaluate import cost_of, lengths_in_turn
from solver.ledger import Ledger, ledger_of
from solver.lowering import Models
from solver.mesh_outcome import MeshOutcome
from solver.moments.peak import Moments
from solver.overlap.course import Course, Part, course_of
from solver.plan_document import stage_document
from solver.portions import Portion
from solver.states import IntArray
from solver.unfolding import Unfolding


@dataclass(frozen=True)
class FoldedPlan:
    """course, cost, moments: of the whole."""

    models: Models
    unfolding: Unfolding
    portions: list[Portion]
    ledgers: list[Ledger]
    course: Course
    cost: Cost
    moments: Moments

    @staticmethod
    @uncollected
    def of(best: MeshOutcome) -> FoldedPlan:
        """Of an outcome that has a choice."""
        assert best.unfolding is not None
        assert best.outcome.choice is not None
        models, unfolding = best.models, best.unfolding
        portions = unfolding.portions(best.outcome.choice)
        ledgers = [ledger_of(models, own.assignment, own.share) for own in portions]
        parts = [
            Part(own.assignment, ledger, own.share, own.copies)
            for own, ledger in zip(portions, ledgers, strict=True)
        ]
        course = course_of(models, parts, unfolding.place_of_ops)
        moments = unfolding.moments(portions, ledgers)
        cost = cost_of(models, parts, lengths_in_turn(models.problem, course), moments)
        return FoldedPlan(models, unfolding, portions, ledgers, course, cost, moments)

    @cached_property
    def stages(self) -> list[Stage]:
        """Of every portion, in the names of the folded graph."""
        return [
            stage_document(self.models, own.assignment, ledger, own.share)
            for own, ledger in zip(self.portions, self.ledgers, strict=True)
        ]


@dataclass(slots=True)
class FoldedPlans:
    """Plans of outcomes that have a choice, each made once."""

    _known: dict[int, tuple[IntArray, FoldedPlan]] = field(default_factory=dict)

    def of(self, outcome: MeshOutcome) -> FoldedPlan:
        choice = outcome.outcome.choice
        assert choice is not None
        if id(choice) not in self._known:
            self._known[id(choice)] = choice, FoldedPlan.of(outcome)
        return self._known[id(choice)][1]
