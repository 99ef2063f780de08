"""A pipeline's stages before they are cut: the whole graph on the devices of one rank.

It is planned on the coarsest mesh of the rank's devices, in the memory of all ranks and with as
many microbatches in flight as 1f1b's first rank holds: what fits so would fit if every rank had an
equal share of the graph. What its ops then take and hold, one by one, is what cuts balance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.calibrations import default_calibration
from costmodel.collectives import NS_PER_S
from meshwright.schema import (
    Infeasible,
    InvalidInput,
    Passes,
    Pin,
    Request,
    RequestError,
    Stage,
    Topology,
)
from meshwright.schema.cuts import Cuts, axes_of, counts_of
from solver.cost_graph import FloatArray
from solver.deadline import Deadline
from solver.folded_plan import FoldedPlan
from solver.pipeline.cuts import Weights, crossing_bytes, places
from solver.pipeline.pace import Pace
from solver.pipeline.passes import Durations
from solver.pipeline.schedule import Schedule
from solver.pipeline.sketch import Sketches
from solver.pipeline.split import split
from solver.pipeline.stage_cost import split_passes, whole_passes
from solver.pipeline.stage_graph import Anatomy
from solver.problem import step_batch
from solver.stage_planner import Place, plan_stage
from solver.states import IntArray

_LEAST_S = 0.01  # chosen: a budget is more than nothing
_TOLERANCE = 1e-2  # chosen: an estimate is worth no more


@dataclass(frozen=True)
class Coarse:
    """Of all the graph's ops, by position in `Anatomy.order`. whole, split: passes of one rank that
    had them all, backward ones whole or in halves; step: each op's share of what is done once a
    step. send_ns: of a cut, one way, in every microbatch."""

    weights: Weights
    places: IntArray
    send_ns: FloatArray
    whole: Passes
    split: Passes
    step: FloatArray

    @cached_property
    def _until(self) -> FloatArray:
        """Up to each position: the share of what is done in every microbatch, and of the rest."""
        often = self.weights.ns - self.whole.step_ns * self.step
        often = often / max(float(often.sum()), 1e-9)
        return np.stack([np.append(0.0, np.cumsum(own)) for own in (often, self.step)])

    def step_ns(self, cuts: Sequence[int], pace: Pace) -> float:
        """An estimate of the step with these cuts."""
        whole = self.split if pace.is_split else self.whole
        often, once = np.diff(self._until[:, [0, *cuts, len(self.step)]])
        transfers = self.send_ns[list(cuts)]
        lasting = Durations(
            whole.forward_ns * often,
            whole.inputs_ns * often,
            whole.weights_ns * often,
            np.stack([transfers, transfers]),
        )
        begin_ns = whole.begin_ns * float(once[0])
        return begin_ns + pace.step_ns(lasting, whole.step_ns * once)

    def most_bytes(self, cuts: Sequence[int], schedule: Schedule) -> float:
        """What the stages of the fullest rank hold."""
        return float(np.bincount(schedule.rank_of, self._held(cuts, schedule)).max())

    def _held(self, cuts: Sequence[int], schedule: Schedule) -> FloatArray:
        """What each stage holds."""
        static, saved = self.weights.between([0, *cuts, len(self.step)])
        held: FloatArray = static + np.array(schedule.in_flight) * saved
        return held

    def shares(
        self, cuts: Sequence[int], schedule: Schedule, limit_bytes: float
    ) -> tuple[float, ...]:
        """How stages that share a rank's devices share their memory: each has what it seems to
        need, and an equal part of what is left."""
        held = self._held(cuts, schedule)
        of_rank = np.bincount(schedule.rank_of, held)
        count = schedule.stages // schedule.ranks
        found = []
        for stage, rank in enumerate(schedule.rank_of):
            left = max(limit_bytes - float(of_rank[rank]), 0.0)
            total = max(float(of_rank[rank]), limit_bytes)
            found.append((float(held[stage]) + left / count) / total)
        return tuple(found)


def coarse(
    request: Request, anatomy: Anatomy, ranks: int, microbatches: int, deadline: Deadline
) -> Coarse | Infeasible | None:
    """Why no plan fits even so; None where the graph cannot be run in so many microbatches.

    Pins that the devices of a rank cannot keep are a reason where the number of ranks is open, and
    raised as bad input where it was asked for.
    """
    part, link = split(request.topology, ranks)
    device = part.device.model_copy(update={"memory_bytes": part.device.memory_bytes * ranks})
    calibration = request.calibration or default_calibration()
    own = request.model_copy(
        update={
            "topology": part.model_copy(update={"device": device}),
            "setup": request.setup.model_copy(update={"microbatches": microbatches}),
            "budget": request.budget.model_copy(
                update={"max_axes": coarsest_axes(request, part), "simplicity": 0.0}
            ),
        }
    )
    sketches = Sketches()
    try:
        place = Place(min(ranks, microbatches), tolerance=_TOLERANCE)
        answer = plan_stage(within(own, deadline), None, deadline.stop, place, sketches.write)
    except RequestError as wrong:
        said = RequestError(wrong.detail + _used_up(request, part, ranks), pointer=wrong.pointer)
        if request.pipeline.ranks is not None:
            raise said from wrong
        return Infeasible(constraint="pins", detail=said.detail)
    except InvalidInput:
        if request.setup.microbatches is not None:
            raise
        return None  # the graph cannot be run at so small a batch
    if answer.plan is None:
        return answer.infeasible
    folded = sketches.of(answer.plan)
    whole = whole_passes(folded)
    weights, step = _weights(folded, anatomy, whole, microbatches)
    batch = step_batch(request.graph, request.setup)
    symbols = dict(request.setup.symbols)
    if batch is not None:
        symbols["batch"] = batch // microbatches
    crossing = crossing_bytes(anatomy, symbols)
    rate = link.device_bytes_per_s * calibration.link_efficiency * part.device_count
    send_ns = link.latency_ns + crossing / rate * NS_PER_S
    return Coarse(weights, places(crossing), send_ns, whole, split_passes(folded), step)


def within(request: Request, deadline: Deadline, share: float = 1.0) -> Request:
    """The request with a share of what is left of the time as its budget."""
    left = deadline.left_s()
    if left is None:
        return request
    budget = request.budget.model_copy(update={"seconds": max(left * share, _LEAST_S)})
    return request.model_copy(update={"budget": budget})


def coarsest_axes(request: Request, part: Topology) -> int:
    """The axes of the coarsest mesh of a part; of the finest where pins name others than levels."""
    levels = {level.name for level in request.topology.levels}
    for pin in request.pins:
        if not _named(pin) <= levels or any(counts_of(own) for own in _cuts(pin)):
            return request.budget.max_axes
    return max(1, sum(level.size > 1 for level in part.levels))


def _cuts(pin: Pin) -> list[Cuts]:
    return [own for own in (*(pin.inputs or ()), *(pin.outputs or ())) if own is not None]


def _named(pin: Pin) -> set[str]:
    """The axes that a pin names."""
    named = {axis for axes in (pin.strategy or {}).values() for axis in axes}
    return named | {axis for own in _cuts(pin) for axis in axes_of(own)}


def _used_up(request: Request, part: Topology, ranks: int) -> str:
    """Which levels pins name of which a rank has a single unit."""
    named = {axis for pin in request.pins for axis in _named(pin)}
    sizes = {level.name: level.size for level in part.levels}
    gone = [
        level.name
        for level in request.topology.levels
        if level.size > 1 and level.name in named and sizes.get(level.name, 1) == 1
    ]
    if not gone:
        return ""
    levels = " and ".join(repr(name) for name in gone)
    return f"; {ranks} pipeline ranks use up level {levels}: fewer ranks leave some of it"


def _weights(
    folded: FoldedPlan, anatomy: Anatomy, whole: Passes, microbatches: int
) -> tuple[Weights, FloatArray]:
    """What a plan's ops take in a step and hold, and their shares of what is done once."""
    place = _Places(anatomy)
    ns, static, saved = found = np.zeros((3, len(anatomy.order)))
    for portion, stage in zip(folded.portions, folded.stages, strict=True):
        items = list(_items(stage))
        for copy in portion.copies:
            names = copy.names()
            for op, tensor, own in items:
                at = place.of(op and names.get(op, op), names.get(tensor, tensor))
                if at is not None:
                    found[:, at] += own
    often = microbatches * (whole.forward_ns + whole.inputs_ns + whole.weights_ns)
    ns *= often / max(float(ns.sum()), 1e-9)
    step = static / max(float(static.sum()), 1.0)
    return Weights(ns + whole.step_ns * step, static, saved), step


def _items(stage: Stage) -> Iterator[tuple[str | None, str, FloatArray]]:
    """Op and tensor of whatever takes time in a step, or memory, static or saved."""
    for op in stage.ops:
        yield op.op, "", np.array([op.compute_ns + op.communication_ns, 0.0, 0.0])
    for moved in stage.redistributions:
        yield moved.op, moved.tensor, np.array([moved.counted_ns, 0.0, 0.0])
    for own in stage.parameters:
        held = own.value_bytes + own.gradient_bytes + own.optimizer_bytes
        yield None, own.tensor, np.array([0.0, held, 0.0])
    for made in stage.tensors:
        if made.saved_bytes:
            yield None, made.tensor, np.array([0.0, 0.0, made.saved_bytes])


class _Places:
    """Which op an item of a plan belongs to: its reader, its maker, or the first to read it."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.place: Mapping[str, int] = anatomy.place
        self.made: Mapping[str, int] = anatomy.made_at
        self.read: dict[str, int] = {}
        for at, op in enumerate(anatomy.order):
            for name in op.inputs:
                self.read.setdefault(name, at)

    def of(self, op: str | None, tensor: str) -> int | None:
        if op is not None and op in self.place:
            return self.place[op]
        return self.made.get(tensor, self.read.get(tensor))
