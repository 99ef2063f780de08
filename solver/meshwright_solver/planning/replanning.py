"""Plans for a job that runs under another plan already: the move from there counts.

    total = step · steps left + move        move: parameters and optimizer states, `transfers.plans`

The way of the old plan, its degrees on the new devices, is planned first, as that is quick: where
the search then ends early it is there. What the search finds is taken where it is ahead when the
steps are done.
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
    """A way to go on; plan: None where `choice.why` says why there is none."""

    answer: Answer
    choice: MoveChoice

    @property
    def total_ns(self) -> float:
        return math.inf if self.choice.total_ns is None else self.choice.total_ns


def without_before(request: Request) -> Request:
    """The request of a job that begins."""
    return request.model_copy(update={"before": None}) if request.before is not None else request


def replanned(request: Request, plan: Callable[[Request], Answer]) -> Answer:
    """The answer with the least time for the steps left and the move, among those of `plan`.

    Raises what `plan` raises for the request itself.
    """
    before = request.before
    assert before is not None
    kept = _kept(request, before, plan)
    searched = _weighed(SEARCHED, request, before, plan(without_before(request)))
    best = min((searched, kept), key=lambda found: found.total_ns)
    if best.answer.plan is None or best.choice.total_ns is None:
        return searched.answer
    others = [found.choice for found in (searched, kept) if found is not best]
    move = PlanMove(
        from_plan=before.plan.id,
        from_devices=before.topology.device_count,
        from_step_ns=before.plan.cost.step_ns,
        from_memory_bytes=before.plan.cost.memory_bytes.total,
        steps=before.steps,
        choices=(best.choice, *others),
        pays_after_steps=_pays_after(best.choice, kept.choice),
    )
    found = best.answer.plan.model_copy(update={"move": move})
    return best.answer.model_copy(update={"plan": found})


def _kept(request: Request, before: Before, plan: Callable[[Request], Answer]) -> _ReplanOption:
    """The old plan's way on the new devices."""
    if before.degrees is None:
        return _no_choice("the old plan's strategies are not those of a few degrees")
    said = request.constraints.optimizer_parallel or OptimizerParallel()
    open_level = said.model_copy(update={"level": None})
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
        # the degrees are not in the user's request, so that no patch of it plans the same
        return _weighed(KEPT, stated, before, of_wider_request(plan(stated), None))
    except InvalidInput as cannot:
        return _no_choice(cannot.detail)


def _weighed(name: str, request: Request, before: Before, answer: Answer) -> _ReplanOption:
    found = answer.plan
    if found is None:
        assert answer.infeasible is not None
        why = f"{answer.infeasible.constraint}: {answer.infeasible.detail}"
        return _ReplanOption(answer, MoveChoice(name=name, why=why))
    memory = found.cost.memory_bytes
    choice = MoveChoice(name=name, step_ns=found.cost.step_ns, memory_bytes=memory.total)
    if memory.total > memory.capacity:
        why = "it does not fit into the devices' memory"
        return _ReplanOption(answer, choice.model_copy(update={"why": why}))
    moved = transfer_plans(
        PlanDocuments(before.plan, request.graph, before.topology, before.setup),
        PlanDocuments(found, request.graph, request.topology, request.setup),
        calibration=calibration_for(request),
    )
    total_ns = before.steps * found.cost.step_ns + moved.ns
    weighed = {"moved_bytes": moved.moved_bytes, "move_ns": moved.ns, "total_ns": total_ns}
    return _ReplanOption(answer, choice.model_copy(update=weighed))


def _no_choice(why: str) -> _ReplanOption:
    return _ReplanOption(Answer(), MoveChoice(name=KEPT, why=why))


def _pays_after(chosen: MoveChoice, kept: MoveChoice) -> int | None:
    """Steps after which the chosen plan is ahead of the kept one."""
    times = chosen.step_ns, chosen.move_ns, kept.step_ns, kept.move_ns
    if chosen is kept or any(own is None for own in times):
        return None
    step_ns, move_ns, kept_step_ns, kept_move_ns = (own or 0.0 for own in times)
    later = move_ns - kept_move_ns
    return math.ceil(later / (kept_step_ns - step_ns)) if later > 0 else 0
