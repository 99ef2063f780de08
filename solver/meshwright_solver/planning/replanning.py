"""Replanning of a running job: plans with the cost of the move from the current plan.

    total = step · steps left + move        move: parameters and optimizer states, `transfers.plans`

The degrees of the old plan on the new devices are planned first. That is quick, so an answer is
there if the search ends early. The search's plan wins if its total is less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from meshwright.schema import Answer, InvalidInput, OptimizerParallel, Request
from meshwright.schema.migration import MoveChoice, PlanMove
from meshwright.schema.running_plan import Before
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans
from meshwright_solver.stage.request_patches import of_wider_request

SEARCHED, KEPT = "searched", "same degrees"


@dataclass(frozen=True)
class _ReplanOption:
    """One option of replanning; `answer.plan` is None if `choice.why` has the reason."""

    answer: Answer
    choice: MoveChoice

    @property
    def total_ns(self) -> float:
        return math.inf if self.choice.total_ns is None else self.choice.total_ns


def without_before(request: Request) -> Request:
    """The request for a new job, without a running plan."""
    return request.model_copy(update={"before": None}) if request.before is not None else request


def replanned(request: Request, plan: Callable[[Request], Answer]) -> Answer:
    """The answer of `plan` with the least total time of the remaining steps and the move.

    Raises the errors of `plan` for the request itself.
    """
    before = request.before
    assert before is not None
    same = _same_degrees(request, before, plan)
    searched = _option(SEARCHED, request, before, plan(without_before(request)))
    best = min((searched, same), key=lambda option: option.total_ns)
    if best.answer.plan is None or best.choice.total_ns is None:
        return searched.answer
    others = [option.choice for option in (searched, same) if option is not best]
    move = PlanMove(
        from_plan=before.plan.id,
        from_devices=before.topology.device_count,
        from_step_ns=before.plan.cost.step_ns,
        from_memory_bytes=before.plan.cost.memory_bytes.total,
        steps=before.steps,
        choices=(best.choice, *others),
        pays_after_steps=_pays_after(best.choice, same.choice),
    )
    moved = best.answer.plan.model_copy(update={"move": move})
    return best.answer.model_copy(update={"plan": moved})


def _same_degrees(
    request: Request, before: Before, plan: Callable[[Request], Answer]
) -> _ReplanOption:
    """The option with the old plan's degrees on the new devices."""
    if before.degrees is None:
        return _no_choice("the old plan's strategies are not those of a few degrees")
    wish = request.constraints.optimizer_parallel or OptimizerParallel()
    open_level = wish.model_copy(update={"level": None})
    constraints = request.constraints.model_copy(update={"optimizer_parallel": open_level})
    try:
        stated = type(request)(
            **{
                **dict(without_before(request)),
                "degrees": before.degrees,
                "pipeline": before.pipeline,
                "constraints": constraints,
                "module": None,
            }
        )
        # no patch of the user's request gives this plan: the request has no degrees
        return _option(KEPT, stated, before, of_wider_request(plan(stated), None))
    except InvalidInput as cannot:
        return _no_choice(cannot.detail)


def _option(name: str, request: Request, before: Before, answer: Answer) -> _ReplanOption:
    plan = answer.plan
    if plan is None:
        assert answer.infeasible is not None
        why = f"{answer.infeasible.constraint}: {answer.infeasible.detail}"
        return _ReplanOption(answer, MoveChoice(name=name, why=why))
    memory = plan.cost.memory_bytes
    choice = MoveChoice(name=name, step_ns=plan.cost.step_ns, memory_bytes=memory.total)
    if memory.total > memory.capacity:
        why = "it does not fit into the devices' memory"
        return _ReplanOption(answer, choice.model_copy(update={"why": why}))
    transfer = transfer_plans(
        PlanDocuments(before.plan, request.graph, before.topology, before.setup),
        PlanDocuments(plan, request.graph, request.topology, request.setup),
        calibration=calibration_for(request),
    )
    total_ns = before.steps * plan.cost.step_ns + transfer.ns
    weighed = {"moved_bytes": transfer.moved_bytes, "move_ns": transfer.ns, "total_ns": total_ns}
    return _ReplanOption(answer, choice.model_copy(update=weighed))


def _no_choice(why: str) -> _ReplanOption:
    return _ReplanOption(Answer(), MoveChoice(name=KEPT, why=why))


def _pays_after(chosen: MoveChoice, same: MoveChoice) -> int | None:
    """The number of steps after which the chosen plan is ahead of the same degrees."""
    times = chosen.step_ns, chosen.move_ns, same.step_ns, same.move_ns
    if chosen is same or any(value is None for value in times):
        return None
    step_ns, move_ns, kept_step_ns, kept_move_ns = (value or 0.0 for value in times)
    later = move_ns - kept_move_ns
    return math.ceil(later / (kept_step_ns - step_ns)) if later > 0 else 0
