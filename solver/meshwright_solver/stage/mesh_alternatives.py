"""Alternatives on other meshes: the best plan of each mesh that a search of one stage looked at.

They are considered configurations without a request patch, since a request states no mesh. A mesh
on which no plan can cost less than that of another mesh has no plan, but a bound on the objective.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite

from meshwright.schema import Considered, Plan
from meshwright_solver.folding.folded_plan import FoldedPlan, FoldedPlans
from meshwright_solver.folding.mesh_outcome import MeshOutcome, shown

MOST_CONSIDERED = 20  # chosen: considered configurations of a plan of one stage
_PREFIX, _TERMS = "mesh ", ", recompute "


def alternatives(
    outcomes: Iterable[MeshOutcome], plans: FoldedPlans, best: MeshOutcome
) -> tuple[Considered, ...]:
    """The plans of all meshes but the best outcome's, and the bounds of meshes without a plan."""
    cost = plans.of(best).cost
    others = [outcome for outcome in outcomes if outcome.mesh != best.mesh]
    found = [
        _planned(outcome, plans.of(outcome), cost.step_ns)
        if outcome.outcome.choice is not None
        else _bounded(outcome, cost.objective_ns)
        for outcome in others
    ]
    return tuple([alternative for alternative in found if alternative is not None])


def _planned(outcome: MeshOutcome, folded: FoldedPlan, best_ns: float) -> Considered | None:
    """The plan of a mesh; None if it does not fit."""
    if folded.over_bytes > 0:
        return None
    return _entry(_terms(outcome), folded.cost.step_ns, folded.memory_bytes.total, best_ns)


def _bounded(outcome: MeshOutcome, best_ns: float) -> Considered | None:
    """The bound of a mesh that was not searched to its end; None without one."""
    bound_ns = outcome.outcome.lower_bound_ns
    if outcome.left_out or outcome.outcome.status == "infeasible" or not isfinite(bound_ns):
        return None
    ratio = bound_ns / best_ns if best_ns else 1.0
    return Considered(
        configuration=_PREFIX + _terms(outcome),
        estimated_ns=bound_ns,
        why=f"every plan has at least {ratio:.3f} times the objective",
    )


def _terms(outcome: MeshOutcome) -> str:
    problem = outcome.models.problem
    policy, count = problem.remade.policy, problem.microbatches
    return f"{shown(outcome.mesh)}{_TERMS}{policy}, {count} microbatches"


def alternative_of(plan: Plan) -> Considered:
    """A plan of one stage as an alternative to itself."""
    (stage,) = plan.stages
    policy = "none" if stage.recompute is None else stage.recompute.policy
    terms = f"{shown(stage.mesh)}{_TERMS}{policy}, {plan.microbatches} microbatches"
    ns = plan.cost.step_ns
    return _entry(terms, ns, plan.cost.memory_bytes.total, ns)


def best_of_meshes(found: Iterable[Considered], plan: Plan, most: int) -> tuple[Considered, ...]:
    """The fastest alternative of each mesh but the plan's, at most `most`, the fastest first."""
    known = {shown(stage.mesh) for stage in plan.stages}
    chosen: dict[str, Considered] = {}
    for alternative in sorted(mesh_alternatives(found), key=_step_ns):
        mesh = alternative.configuration.removeprefix(_PREFIX).split(_TERMS)[0]
        if mesh not in known:
            chosen.setdefault(mesh, alternative)
    step_ns = plan.cost.step_ns
    return tuple([compared(alternative, step_ns) for alternative in [*chosen.values()][:most]])


def compared(considered: Considered, best_ns: float) -> Considered:
    """The configuration, with the ratio of its planned step to another plan's."""
    if considered.cost_ns is None:
        return considered
    why = planned_why(considered.cost_ns, best_ns)
    return considered if considered.why == why else considered.model_copy(update={"why": why})


def mesh_alternatives(considered: Iterable[Considered]) -> Sequence[Considered]:
    """The configurations that are alternatives on other meshes."""
    return [each for each in considered if each.configuration.startswith(_PREFIX)]


def _entry(terms: str, ns: float, memory_bytes: int, best_ns: float) -> Considered:
    return Considered(
        configuration=f"{_PREFIX}{terms}",
        estimated_ns=ns,
        cost_ns=ns,
        memory_bytes=memory_bytes,
        why=planned_why(ns, best_ns),
    )


def _step_ns(considered: Considered) -> float:
    """The step of an alternative; without a plan it is behind all others."""
    return inf if considered.cost_ns is None else considered.cost_ns


def planned_why(ns: float, best_ns: float) -> str:
    """The reason against a planned configuration: the ratio of its step to the plan's."""
    return f"takes {ns / best_ns if best_ns else 1:.3f} times"
