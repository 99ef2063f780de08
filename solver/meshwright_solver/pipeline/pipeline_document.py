"""The plan document of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Considered, Plan, Request, Schedule, Search
from meshwright_solver.evaluation.model_flops import added_flops
from meshwright_solver.evaluation.notes import nothing_recomputed
from meshwright_solver.pipeline.configuration_bound import least_step_ns
from meshwright_solver.pipeline.stage_plans import StagePlans
from meshwright_solver.pipeline.stage_problems import Staged


def document(
    request: Request,
    staged: Staged,
    stage_plans: StagePlans,
    considered: Sequence[Considered],
    notes: Sequence[str],
) -> Plan:
    """The plan document of separately planned stages."""
    configuration, cost, plans = (
        stage_plans.configuration,
        stage_plans.priced.cost,
        stage_plans.plans,
    )
    recomputes = any(plan.stages[0].recompute is not None for plan in plans)
    unused = () if recomputes else nothing_recomputed(request.recompute)
    bound = least_step_ns(staged, stage_plans.first, request.budget.max_axes)
    return Plan(
        name=request.graph.name,
        graph=request.graph.id,
        topology=request.topology.id,
        setup=request.setup.id,
        calibration=staged.calibration.id,
        microbatches=configuration.microbatches,
        stages=stage_plans.priced.stages,
        schedule=Schedule(
            kind=configuration.schedule,
            ranks=configuration.ranks,
            stages_per_rank=configuration.stages_per_rank,
        ),
        cost=cost,
        search=Search(
            found_by=plans[0].search.found_by,
            outcome="feasible",
            cost_ns=cost.step_ns,
            lower_bound_ns=bound,
            gap=(cost.step_ns - bound) / cost.step_ns,
            meshes=tuple(dict.fromkeys(mesh for plan in plans for mesh in plan.search.meshes)),
            considered=tuple(considered),
        ),
        model_flops=added_flops([plan.model_flops for plan in plans]),
        repeated_work=max(plan.repeated_work for plan in plans),
        unknown_kinds=tuple(sorted({kind for plan in plans for kind in plan.unknown_kinds})),
        padding=tuple(
            {str(padding): padding for plan in plans for padding in plan.padding}.values()
        ),
        notes=tuple(dict.fromkeys([*notes, *unused, *(n for plan in plans for n in plan.notes)])),
    )
