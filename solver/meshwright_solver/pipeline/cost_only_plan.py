"""Plans that are weighed and not shown: their cost, and what is theirs in the folded graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from meshwright.schema import Finding, Plan, Request, Search, Stage
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.mesh_outcome import MeshOutcome, shown


@dataclass(slots=True)
class Sketches:
    """Writes plans whose stage is empty, and keeps what would have been written into it."""

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
        """As `answer_of` wants it; it proves nothing."""
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
        """What a plan written here stands for."""
        return next(folded for empty, folded in self._kept if empty is plan.stages[0])
