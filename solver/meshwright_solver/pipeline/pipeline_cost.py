"""The cost of a pipeline: its stages' passes in the order of the schedule, with transfers.

    step      the begin of the first stage, then the end of the last rank: its passes, its waits
              and its work once a step
    memory    of the rank with the highest peak: persistent state of its stages, the most that they
              save at one time (buffers of a split backward pass included), and transient memory

The numbers of a plan's `cost` are those of the busiest rank; the rest of its step is `bubble_ns`.
The gradient of a parameter in several stages is reduced between them once a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from meshwright.schedules.schedule import ScheduleTable, stages_on
from meshwright.schema import (
    DTYPE_BYTES,
    Cost,
    LayoutPair,
    MemoryUse,
    Mesh,
    Passes,
    PlanError,
    Received,
    Stage,
)
from meshwright.transfers.holding import PlacedMesh
from meshwright_costmodel.collectives import NS_PER_S
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.layouts.transfers.transfer import between_stages
from meshwright_solver.pipeline.rank_peak import RankPeaks
from meshwright_solver.pipeline.schedule_run import Durations, step_ns
from meshwright_solver.pipeline.stage_cost import StageCost, passes_of, stage_cost
from meshwright_solver.pipeline.stage_graph import received
from meshwright_solver.pipeline.stage_problems import Staged


@dataclass(frozen=True, slots=True)
class Priced:
    """The evaluated stages of a pipeline and their cost together.

    stages: with received tensors, passes and memory. of_ranks: memory by rank.
    """

    stages: tuple[Stage, ...]
    cost: Cost
    of_ranks: tuple[MemoryUse, ...]


def priced(
    staged: Staged,
    stages: Sequence[Stage],
    first: Sequence[int] = (),
    judged: Mapping[int, StageCost] = MappingProxyType({}),
) -> Priced:
    """Evaluate separately planned stages together; raises PlanError for stages that do not fit.

    first: by stage, the first stage of which it is a copy under other names; by default no stage
    is a copy. judged: known results of `stage_cost` by stage.
    """
    costs: list[StageCost] = []
    for number, like in enumerate(first or range(len(stages))):
        if like < number:
            costs.append(costs[like].of_copy(stages[like], stages[number]))
        else:
            known_cost = judged.get(number)
            costs.append(known_cost or _cost_alone(staged, number, stages[number]))
    receives = [_received_tensors(staged, stages, s) for s in range(len(stages))]
    tied = tied_ns(staged, stages)
    passes = [
        passes_of(replace(each.lengths, end=each.lengths.end + extra))
        for each, extra in zip(costs, tied, strict=True)
    ]
    held = RankPeaks(staged.schedule, costs)
    complete = tuple(
        stage.model_copy(
            update={
                "ranks_from": int(staged.devices(s)[0]),
                "pipeline_rank": staged.schedule.rank_of[s],
                "in_flight": staged.schedule.in_flight[s],
                "receives": receives[s],
                "passes": passes[s],
                "memory_bytes": held.of_stage(s),
                "moments": held.moments(s),
            }
        )
        for s, stage in enumerate(stages)
    )
    of_ranks = [held.of_rank(rank) for rank in range(staged.schedule.ranks)]
    fullest = max(of_ranks, key=lambda use: use.total / use.capacity)
    cost = _cost(staged.schedule, costs, passes, receives, tied, fullest)
    return Priced(complete, cost, tuple(of_ranks))


def _cost_alone(staged: Staged, number: int, stage: Stage) -> StageCost:
    """The cost of a stage at its position in the pipeline."""
    return stage_cost(staged.problem(number), stage, split=staged.schedule.is_split)


def step_of_passes_ns(
    schedule: ScheduleTable, passes: Sequence[Passes], transfer_ns: FloatArray
) -> float:
    """The time of a step of stages with these passes. transfer_ns: see `Durations`."""
    once = np.array([each.step_ns for each in passes])
    return passes[0].begin_ns + step_ns(schedule, durations_of(passes, transfer_ns), once)


def durations_of(passes: Sequence[Passes], transfer_ns: FloatArray) -> Durations:
    """The durations of the passes of all stages. transfer_ns: see `Durations`."""
    return Durations(
        np.array([each.forward_ns for each in passes]),
        np.array([each.inputs_ns for each in passes]),
        np.array([each.weights_ns for each in passes]),
        transfer_ns,
    )


def transfers_of(receives: Sequence[Sequence[Received]]) -> FloatArray:
    """The transfer times of `Durations`. receives: the tensors that each stage receives."""
    there = [sum(tensor.forward_ns for tensor in tensors) for tensors in receives[1:]]
    back = [sum(tensor.backward_ns for tensor in tensors) for tensors in receives[1:]]
    return np.array([there, back], dtype=np.float64)


def _cost(
    schedule: ScheduleTable,
    costs: Sequence[StageCost],
    passes: Sequence[Passes],
    receives: Sequence[Sequence[Received]],
    tied: Sequence[float],
    fullest: MemoryUse,
) -> Cost:
    transfer_ns = transfers_of(receives)
    total_ns = step_of_passes_ns(schedule, passes, transfer_ns)
    ranks = [stages_on(schedule.rank_of, rank) for rank in range(schedule.ranks)]
    # only the first stage waits for parameters: other stages gather theirs while they wait for it
    exposed = [
        cost.lengths.exposed_ns(schedule.microbatches, begins=stage == 0)
        for stage, cost in enumerate(costs)
    ]
    busy = [
        sum(costs[s].cost.compute_ns + sum(exposed[s].values()) + tied[s] for s in stages)
        for stages in ranks
    ]
    longest = int(np.argmax(busy))
    busiest = ranks[longest]
    sent = schedule.microbatches * sum(
        float(transfer_ns[way, stage - 1]) for stage in busiest for way in (0, 1) if stage > 0
    )
    extra = sum(tied[stage] for stage in busiest)
    full = _sum_by_key([costs[stage].cost.communication_ns for stage in busiest])
    waited = _sum_by_key([exposed[stage] for stage in busiest])
    full["gradient"] += extra
    waited["gradient"] += extra
    return Cost(
        step_ns=total_ns,
        objective_ns=total_ns,
        compute_ns=sum(costs[stage].cost.compute_ns for stage in busiest),
        bubble_ns=max(0.0, total_ns - busy[longest]),
        communication_ns={**full, "pipeline": sent},
        exposed_ns=waited,
        memory_bytes=fullest,
    )


def _sum_by_key(of_stages: Sequence[dict[str, float]]) -> dict[str, float]:
    keys = dict.fromkeys(key for of_stage in of_stages for key in of_stage)
    return {key: sum(of_stage.get(key, 0.0) for of_stage in of_stages) for key in keys}


def _received_tensors(staged: Staged, stages: Sequence[Stage], number: int) -> tuple[Received, ...]:
    """The tensors that a stage receives from the one before."""
    names = received(staged.graphs[number])
    if not names:
        return ()
    before, stage = stages[number - 1], stages[number]
    known, receives = staged.received, []
    for name in names:
        dtype = staged.anatomy.graph.tensor(name).dtype
        pairs = _pair(before, name), _pair(stage, name)
        # a transfer over the same distance takes the same time
        key = (
            *(pair.model_dump_json() for pair in pairs),
            before.mesh,
            stage.mesh,
            dtype,
            staged.distance(number),
        )
        if key not in known:
            known[key] = _sent(staged, number, pairs, (before.mesh, stage.mesh), DTYPE_BYTES[dtype])
        receives.append(known[key].model_copy(update={"tensor": name}))
    return tuple(receives)


def _sent(
    staged: Staged,
    number: int,
    pairs: tuple[LayoutPair, LayoutPair],
    meshes: tuple[Mesh, Mesh],
    element_bytes: int,
) -> Received:
    here, there = (
        (pair, PlacedMesh(mesh, staged.devices(stage)))
        for pair, mesh, stage in zip(pairs, meshes, (number - 1, number), strict=True)
    )
    forward, backward = between_stages(
        f"to stage {number}",
        here,
        there,
        staged.wiring,
        value_bytes=element_bytes,
        gradient_bytes=element_bytes,
    )
    return Received(
        tensor="",
        bytes=forward.moved_bytes,
        forward_ns=forward.ns,
        backward_ns=0.0 if backward is None else backward.ns,
        reduction=forward.tensors[0].reduction,
        gradient_reduction=() if backward is None else backward.tensors[0].reduction,
    )


def _pair(stage: Stage, tensor: str) -> LayoutPair:
    for layout in stage.tensors:
        if layout.tensor == tensor:
            return layout.rest
    raise PlanError(f"a stage has no layout for {tensor!r}, which goes from stage to stage")


def tied_ns(staged: Staged, stages: Sequence[Stage]) -> list[float]:
    """By stage: ns of gradient reductions of tied parameters, once a step."""
    holders: dict[str, list[int]] = {}
    local: dict[str, int] = {}
    sparse: set[str] = set()
    for number, stage in enumerate(stages):
        for parameter in stage.parameters:
            if parameter.gradient is not None:
                holders.setdefault(parameter.tensor, []).append(number)
                most = max(local.get(parameter.tensor, 0), parameter.gradient_bytes)
                local[parameter.tensor] = most
                if parameter.sparse_gradient:
                    sparse.add(parameter.tensor)
    reduction_ns = [0.0] * len(stages)
    for name, numbers in holders.items():
        if name in sparse and len(numbers) > 1:
            raise PlanError(
                f"parameter {name!r} is in several stages: its gradient cannot be sparse there"
            )
        ranks = {staged.schedule.rank_of[number] for number in numbers}
        count = len(ranks)
        if count > 1:
            link = staged.link_among(ranks)
            bytes_per_s = link.device_bytes_per_s * staged.calibration.link_efficiency
            steps = 2 * (count - 1).bit_length()
            ns = 2 * (count - 1) / count * local[name] / bytes_per_s * NS_PER_S
            # a rank reduces once, however many of its stages have the parameter
            for number in {staged.schedule.rank_of[number]: number for number in numbers}.values():
                reduction_ns[number] += ns + steps * link.latency_ns
    return reduction_ns
