"""Plans of one stage on a mixed cluster: on each of its groups alone, since a stage has one kind of
device. The fastest is the answer; what it leaves idle is said.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright.schema import Answer, InvalidInput, Request, Topology

Planned = Callable[[Request], Answer]


def plan_on_one_group(request: Request, planned: Planned) -> Answer:
    """planned: one stage on devices of one kind. Where no group has a plan, why the one that misses
    by least has none."""
    if not request.topology.beside:
        return planned(request)
    answers: list[Answer] = []
    first = 0
    for group in request.topology.groups:
        own = request.model_copy(update={"topology": group})
        answers.append(_placed(planned(own), request, group, first))
        first += group.device_count
    return min(answers, key=_worth)


def check_on_groups(request: Request, check: Callable[[Request], None]) -> None:
    """check: of devices of one kind. Raises what it raises where it refuses every group."""
    refused: list[InvalidInput] = []
    for group in request.topology.groups:
        try:
            check(request.model_copy(update={"topology": group}))
        except InvalidInput as wrong:
            refused.append(wrong)
        else:
            return
    raise refused[0]


def _worth(answer: Answer) -> tuple[bool, float]:
    if answer.plan is not None:
        return False, answer.plan.cost.step_ns
    why = answer.infeasible
    if why is None or not why.needed_bytes or not why.available_bytes:
        return True, np.inf
    return True, why.needed_bytes / why.available_bytes


def _placed(answer: Answer, request: Request, group: Topology, first: int) -> Answer:
    """The answer for the whole topology, whose devices from `first` on the group has."""
    if answer.plan is None:
        if answer.infeasible is None:
            return answer
        detail = f"on {group.device_count} {group.device.name} alone: {answer.infeasible.detail}"
        why = answer.infeasible.model_copy(update={"detail": detail})
        return answer.model_copy(update={"infeasible": why})
    (stage,) = answer.plan.stages
    idle = request.topology.device_count - group.device_count
    note = (
        f"one stage has one kind of device: the plan is for the {group.device_count} "
        f"{group.device.name}, and {idle} other devices are idle; a pipeline can have all"
    )
    plan = answer.plan.model_copy(
        update={
            "topology": request.topology.id,
            "stages": (stage.model_copy(update={"ranks_from": first}),),
            "notes": (note, *answer.plan.notes),
        }
    )
    return answer.model_copy(update={"plan": plan})
