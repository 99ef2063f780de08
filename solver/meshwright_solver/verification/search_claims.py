"""Search claims: what a plan states of its search, against the request and against itself.

    found_by            an engine of the portfolio that the request names
    meshes              meshes that the request allows; the plan's own are among them
    history             engines, such meshes, and objectives in descending order, none below the
                        bound
    considered          `meshwright_solver.verification.considered_claims`

The time and the order of a search cannot be checked without another search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from meshwright.schema import InvalidInput, Plan, PlanError, Request
from meshwright_solver.constraints.meshes import meshes_of
from meshwright_solver.folding.mesh_outcome import shown
from meshwright_solver.stage.engines.registry import ENGINES, portfolio_of
from meshwright_solver.verification.considered_claims import check_considered
from meshwright_solver.verification.document_comparison import ROUNDING


def check_search(plan: Plan, request: Request, stage_requests: Sequence[Request]) -> None:
    """Raise PlanError for a claim on the search that the request or the plan rules out.

    stage_requests: those of each stage alone.
    """
    portfolio = portfolio_of(request.solver)
    engines = [engine.name for engine in portfolio.engines]
    if portfolio.fallback is not None:
        engines.append(portfolio.fallback.name)
    _check_name("found_by", plan.search.found_by, engines)
    meshes = {name for each in stage_requests for name in _mesh_names(each)}
    _check_meshes(plan, meshes)
    _check_history(plan, meshes)
    _check_additions(plan)
    if plan.wishes.target is not None and plan.search.outcome == "optimal":
        raise PlanError(
            "the plan says search.outcome 'optimal', but no bound is proved of all strategies of "
            f"the target {plan.wishes.target}"
        )
    check_considered(plan)


def _mesh_names(request: Request) -> Iterator[str]:
    try:
        for axes in range(1, request.budget.max_axes + 1):
            yield from (shown(mesh) for mesh in meshes_of(request, axes))
    except InvalidInput as error:
        raise PlanError(f"the plan's wishes do not fit its documents: {error.detail}") from None


def _check_name(field: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise PlanError(
            f"the plan says search.{field} {name!r}, its request allows {', '.join(sorted(known))}"
        )


def _check_meshes(plan: Plan, known: Collection[str]) -> None:
    meshes = plan.search.meshes
    for mesh in meshes:
        _check_name("meshes", mesh, known)
        if meshes.count(mesh) > 1:
            raise PlanError(f"the plan says search.meshes {mesh!r} twice")
    for stage in plan.stages:
        if shown(stage.mesh) not in meshes:
            raise PlanError(
                f"the plan says search.meshes {', '.join(meshes)}, and has {shown(stage.mesh)}"
            )


def _check_history(plan: Plan, meshes: Collection[str]) -> None:
    previous_ns: float | None = None
    least_ns = plan.search.lower_bound_ns * (1 - ROUNDING)
    for finding in plan.search.history:
        _check_name("history.search", finding.search, ENGINES)
        _check_name("history.mesh", finding.mesh, meshes)
        if finding.cost_ns < least_ns:
            raise PlanError(
                f"the plan says search.history.cost_ns {finding.cost_ns}, below its lower_bound_ns "
                f"{plan.search.lower_bound_ns}"
            )
        if previous_ns is not None and finding.cost_ns >= previous_ns:
            raise PlanError(
                f"the plan says search.history.cost_ns {finding.cost_ns} after {previous_ns}, "
                "which is no improvement"
            )
        previous_ns = finding.cost_ns


def _check_additions(plan: Plan) -> None:
    """Check what the plan adds to the cheapest one: nothing in a pipeline."""
    if plan.schedule is None:
        return
    for field in ("faster_ns", "simplicity_ns"):
        if getattr(plan.search, field):
            raise PlanError(
                f"the plan says search.{field} {getattr(plan.search, field)}, but the objective of "
                "a pipeline is its step"
            )
