"""Folded plans: a plan in portions of the folded graph, before it is expanded to all layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from meshwright.schema import Cost, MemoryUse, Stage
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.ledger import Ledger, ledger_of
from meshwright_solver.evaluation.evaluate import CostTotals, cost_of, lengths_in_turn, memory_of
from meshwright_solver.evaluation.memory.peak import Moments
from meshwright_solver.evaluation.plan_document import stage_document
from meshwright_solver.evaluation.step_time.stage_dag import AssignmentPart, StageDag, dag_of
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.folding.portions import Portion
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.strategies.mesh_models import Models


@dataclass(frozen=True)
class FoldedPlan:
    """Plan for a choice of states of an unfolding; all properties are lazy and cover the whole
    graph."""

    models: Models
    unfolding: Unfolding
    choice: IntArray

    @cached_property
    @uncollected
    def portions(self) -> list[Portion]:
        return self.unfolding.portions(self.choice)

    @cached_property
    @uncollected
    def ledgers(self) -> list[Ledger]:
        return [
            ledger_of(self.models, portion.assignment, portion.share) for portion in self.portions
        ]

    @cached_property
    def parts(self) -> list[AssignmentPart]:
        return [
            AssignmentPart(
                portion.assignment, ledger, portion.share, [copy.names for copy in portion.copies]
            )
            for portion, ledger in zip(self.portions, self.ledgers, strict=True)
        ]

    @cached_property
    @uncollected
    def dag(self) -> StageDag:
        return dag_of(self.models, self.parts, self.unfolding.place_of_ops)

    @cached_property
    @uncollected
    def moments(self) -> Moments:
        return self.unfolding.moments(self.portions, self.ledgers)

    @cached_property
    def totals(self) -> CostTotals:
        return CostTotals.of(self.models.problem, self.parts)

    @cached_property
    def memory_bytes(self) -> MemoryUse:
        return memory_of(self.models.problem, self.totals, self.moments)

    @cached_property
    def cost(self) -> Cost:
        problem = self.models.problem
        lengths = lengths_in_turn(problem, self.dag)
        return cost_of(problem, self.totals, lengths, self.memory_bytes)

    @property
    def over_bytes(self) -> int:
        """Bytes by which the plan exceeds the memory capacity."""
        return self.memory_bytes.total - self.memory_bytes.capacity

    @cached_property
    def stages(self) -> list[Stage]:
        """Stage document of every portion, in the names of the folded graph."""
        return [
            stage_document(self.models, portion.assignment, ledger, portion.share)
            for portion, ledger in zip(self.portions, self.ledgers, strict=True)
        ]


@dataclass(slots=True)
class FoldedPlans:
    """Plans by unfolding; keeps the plan of the last choice only."""

    _known: dict[int, FoldedPlan] = field(default_factory=dict)

    def of(self, outcome: MeshOutcome) -> FoldedPlan:
        """Plan of an outcome with a choice."""
        assert outcome.unfolding is not None
        assert outcome.outcome.choice is not None
        return self.of_choice(outcome.models, outcome.unfolding, outcome.outcome.choice)

    def of_choice(self, models: Models, unfolding: Unfolding, choice: IntArray) -> FoldedPlan:
        plan = self._known.get(id(unfolding))
        if plan is None or plan.choice is not choice:
            plan = self._known[id(unfolding)] = FoldedPlan(models, unfolding, choice)
        return plan
