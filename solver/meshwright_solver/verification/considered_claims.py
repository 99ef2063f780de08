"""Considered configurations: each against its text, its request patch and the plan.

    configuration     the text of its request patch, each once
    why               the ratio of its step, planned or estimated, to the plan's
    cost_ns           not below the plan's step, nor below the bound of all configurations
    order, on_front   by step; on the front are those that need less memory than all faster ones

The step and the memory of a configuration can only be planned again, with its request patch.
"""

from __future__ import annotations

import re

from meshwright.schema import Considered, Plan, PlanError, RequestPatch
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.planning.considered_order import in_order
from meshwright_solver.planning.interleaving import copies_text
from meshwright_solver.stage.mesh_alternatives import planned_why
from meshwright_solver.stage.recompute.candidates import trial_text
from meshwright_solver.verification.document_comparison import ROUNDING

# `why` of a configuration without a plan: how it begins, and the ratio of its estimate
_ESTIMATED = re.compile(
    r"(?:estimated to take|with unlimited memory it would take|stages of equal work take at least)"
    r" (.*) times$"
)


def check_considered(plan: Plan) -> None:
    """Raise PlanError where a considered configuration contradicts the plan or itself."""
    names = set()
    for considered in plan.search.considered:
        name = considered.configuration
        if name in names:
            raise _contradiction(considered, "configuration", "and states it twice")
        names.add(name)
        _check_patch(considered)
        _check_step(considered, plan)
    ordered = in_order(plan.search.considered, plan.cost.memory_bytes.total)
    for considered, expected in zip(plan.search.considered, ordered, strict=True):
        if considered.configuration != expected.configuration:
            reason = f"is not before {expected.configuration!r} in the order of steps"
            raise _contradiction(considered, "configuration", reason)
        if considered.on_front != expected.on_front:
            reason = f"its step and its memory_bytes say {expected.on_front}"
            raise _contradiction(considered, "on_front", reason)


def _contradiction(considered: Considered, field: str, reason: str) -> PlanError:
    return PlanError(
        f"the plan says search.considered {considered.configuration!r} {field} "
        f"{getattr(considered, field)}, {reason}. Plan the request again"
    )


def _check_patch(considered: Considered) -> None:
    patch = considered.request_patch
    if patch is None:
        return
    text = _text_of(patch)
    if text != considered.configuration:
        raise _contradiction(considered, "configuration", f"its request_patch states {text!r}")


def _text_of(patch: RequestPatch) -> str:
    """The text of the configuration that a request patch leaves; empty if it leaves none."""
    pipeline, recompute, setup = (
        patch.get(part, {}) for part in ("pipeline", "recompute", "setup")
    )
    microbatches = setup.get("microbatches")
    if pipeline.get("schedule"):
        virtual = pipeline.get("stages_per_rank") or 1
        terms = pipeline.get("ranks"), pipeline["schedule"], virtual, microbatches
        return str(Configuration(*terms))  # type: ignore[arg-type]  # only its text
    if "policy" in recompute:
        return trial_text(recompute["policy"], microbatches, blocks=recompute.get("blocks"))
    return copies_text(setup["copies"]) if "copies" in setup else ""


def _check_step(considered: Considered, plan: Plan) -> None:
    """Check the step of a configuration, and the ratio to the plan's step that `why` states."""
    step_ns, known_ns = plan.cost.step_ns, considered.cost_ns
    ratio = _ESTIMATED.match(considered.why)
    if known_ns is not None:
        bound_ns = plan.search.step_bound_ns or 0.0
        if known_ns < bound_ns * (1 - ROUNDING):
            raise _contradiction(considered, "cost_ns", f"below step_bound_ns {bound_ns}")
        if known_ns < step_ns * (1 - plan.wishes.budget.simplicity - ROUNDING):
            raise _contradiction(considered, "cost_ns", f"below the plan's step {step_ns}")
        if considered.why != planned_why(known_ns, step_ns):
            raise _contradiction(considered, "why", f"its cost_ns is {known_ns}")
    elif considered.why.startswith("takes"):
        raise _contradiction(considered, "why", "without a cost_ns")
    elif ratio and ratio[1] != f"{considered.estimated_ns / step_ns:.3f}":
        raise _contradiction(considered, "why", f"its estimated_ns is {considered.estimated_ns}")
