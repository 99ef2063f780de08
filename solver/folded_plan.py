"""A plan before it is written for every layer: in portions of the folded graph."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.schema import Cost, Stage
from solver.evaluate import cost_of
from solver.ledger import ledger_of
from solver.lowering import Models
from solver.mesh_outcome import MeshOutcome
from solver.plan_document import stage_document
from solver.portions import Portion
from solver.unfolding import Unfolding


@dataclass(frozen=True, slots=True)
class FoldedPlan:
    """stages: of every portion, in the names of the folded graph. cost: of the whole."""

    models: Models
    unfolding: Unfolding
    portions: list[Portion]
    stages: list[Stage]
    cost: Cost

    @staticmethod
    def of(best: MeshOutcome) -> FoldedPlan:
        """Of an outcome that has a choice."""
        assert best.unfolding is not None
        assert best.outcome.choice is not None
        models, unfolding = best.models, best.unfolding
        portions = unfolding.portions(best.outcome.choice)
        ledgers = [ledger_of(models, own.assignment, own.share) for own in portions]
        times = [len(portion.copies) for portion in portions]
        recomputed = unfolding.recomputed_bytes(portions, ledgers)
        cost = cost_of(models, zip(ledgers, times, strict=True), recomputed)
        stages = [
            stage_document(models, portion.assignment, ledger, portion.share)
            for portion, ledger in zip(portions, ledgers, strict=True)
        ]
        return FoldedPlan(models, unfolding, portions, stages, cost)
