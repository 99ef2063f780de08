"""A plan with a shorter step in the place of one that a search proved cheap."""

from __future__ import annotations

from meshwright.schema import Answer
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.stage.mesh_alternatives import alternative_of


def with_faster_plan(proved: Answer, other: Answer) -> Answer:
    """`other` with the proof of `proved`, if its plan has a step shorter by more than the tolerance
    of a search; else `proved`.

    Both are answers to one problem: the bound of the one holds for the plan of the other.
    """
    if proved.plan is None or other.plan is None:
        return proved
    if other.plan.cost.step_ns >= proved.plan.cost.step_ns * (1 - TOLERANCE):
        return proved
    record, cost_ns = proved.plan.search, other.plan.cost.objective_ns
    cheapest_ns = record.cost_ns - record.faster_ns - record.simplicity_ns
    search = record.model_copy(
        update={
            "found_by": other.plan.search.found_by,
            "meshes": tuple(dict.fromkeys((*record.meshes, *other.plan.search.meshes))),
            "cost_ns": cost_ns,
            "gap": (cost_ns - record.lower_bound_ns) / cost_ns if cost_ns else 0.0,
            "faster_ns": max(0.0, cost_ns - cheapest_ns),
            "simplicity_ns": 0.0,
            "considered": (
                *record.considered,
                *other.plan.search.considered,
                alternative_of(proved.plan),
            ),
        }
    )
    plan = other.plan.model_copy(update={"search": search})
    return proved.model_copy(update={"plan": plan})
