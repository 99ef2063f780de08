"""Plans for comparison only: the cost and the folded plan, without a stage document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from meshwright.schema import Finding, Plan, Request, Search, Stage
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.mesh_outcome import MeshOutcome, shown


@dataclass(slots=True)
class Sketches:
    """Writer of plans with an empty stage, with a map from plan to folded plan."""

    _kept: list[tuple[Stage, FoldedPlan]] = field(default_factory=list)

    @uncollected
    def write(
        self,
        request: Request,
        outcomes: Sequence[MeshOutcome],
        best: MeshOutcome,
        folded: FoldedPlan,
        history: tuple[Finding, ...],
    ) -> Plan:
        """The plan document for `answer_of`; its lower bound is zero."""
        empty = Stage(
            mesh=best.mesh,
            uneven=best.models.problem.uneven.mode,
            ops=(),
            tensors=(),
            parameters=(),
            redistributions=(),
        )
        self._kept.append((empty, folded))
        return Plan(
            name=request.graph.name,
            graph=request.graph.id,
            topology=request.topology.id,
            setup=request.setup.id,
            calibration=best.models.problem.calibration.id,
            microbatches=best.models.problem.microbatches,
            stages=(empty,),
            cost=folded.cost,
            search=Search(
                found_by=best.found_by,
                outcome="feasible",
                cost_ns=folded.cost.objective_ns,
                lower_bound_ns=0.0,
                gap=1.0,
                meshes=tuple(dict.fromkeys(shown(outcome.mesh) for outcome in outcomes)),
                history=history,
            ),
        )

    def of(self, plan: Plan) -> FoldedPlan:
        """The folded plan of a plan written here."""
        return next(folded for empty, folded in self._kept if empty is plan.stages[0])
