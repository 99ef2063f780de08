"""Bound claims: the bounds that a plan states, against bounds that can be proved without a search.

    lower_bound_ns of a pipeline   no plan with the same cuts and schedule has a shorter step
                                   (`meshwright_solver.pipeline.configuration_bound`)
    step_bound_ns                  no configuration that the request allows has a shorter step
                                   (`meshwright_solver.pipeline.step_bound`)

A claim above its proof raises PlanError. A pipeline is `optimal` only where its step equals its
proved bound, within the tolerance of every search. `lower_bound_ns` of one stage is the bound of
its search on the objective, and only a search can prove it again. The check only requires that it
does not exceed the cost of the plan.
"""

from __future__ import annotations

from meshwright.schema import Calibration, Constraints, Plan, PlanError, Request
from meshwright_solver.pipeline import configuration_bound
from meshwright_solver.pipeline.graph_work import GraphWork
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.pipeline.step_bound import request_bound_ns

ROUNDING = 1e-9  # chosen: the same sums in another order


def check_bounds(
    plan: Plan, request: Request, calibration: Calibration, staged: Staged | None
) -> None:
    """Raise PlanError for a bound above the one that can be proved.

    request: the result of `meshwright_solver.verification.conformance.wished_request`. staged: the
    stage problems of a plan with several stages, else None.
    """
    if staged is not None:
        _check("lower_bound_ns", plan.search.lower_bound_ns, _bound_of_cuts(plan, request, staged))
    if plan.search.step_bound_ns is not None:
        anatomy = Anatomy(request.graph) if staged is None else staged.anatomy
        proved_ns = _bound_of_configurations(plan, request, anatomy, calibration)
        _check("step_bound_ns", plan.search.step_bound_ns, proved_ns)


def _check(field: str, claimed_ns: float, proved_ns: float | None) -> None:
    if proved_ns is None:
        raise PlanError(
            f"the plan says search.{field} {claimed_ns}, and no such bound can be proved. "
            "Leave the field out"
        )
    if claimed_ns > proved_ns * (1 + ROUNDING):
        raise PlanError(
            f"the plan says search.{field} {claimed_ns}, but only {proved_ns} can be proved. "
            "Plan the request again"
        )


def _bound_of_cuts(plan: Plan, request: Request, staged: Staged) -> float:
    axes = request.budget.max_axes
    if request.degrees is not None:
        axes = max(len(stage.mesh.axes) for stage in plan.stages)
    return configuration_bound.least_step_ns(staged, staged.alike(request), axes)


def _bound_of_configurations(
    plan: Plan, request: Request, anatomy: Anatomy, calibration: Calibration
) -> float | None:
    if plan.wishes.target is not None:
        # the degrees are those of the plan; the bound is for all that the search may choose
        update = {"degrees": None, "pipeline": plan.wishes.pipeline, "constraints": Constraints()}
        request = request.model_copy(update=update)
    if request.degrees is not None:
        return None
    return request_bound_ns(request, GraphWork(request, anatomy, calibration))
