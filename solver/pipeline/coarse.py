"""A pipeline's stages before they are cut: the whole graph on the devices of one rank.

It is planned in the memory of all ranks, with so many microbatches in flight as a rank holds: what
fits so would fit if every rank had an equal share of the graph. What its ops then take and hold,
one by one, is what cuts balance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from meshwright.schema import (
    Infeasible,
    InvalidInput,
    Mesh,
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
from solver.lowering import Models
from solver.pipeline.cuts import Weights, crossing_bytes, places
from solver.pipeline.placement import Share, parts_of
from solver.pipeline.sketch import Sketches
from solver.pipeline.stage_cost import split_passes, whole_passes
from solver.pipeline.stage_graph import Anatomy
from solver.pipeline.waiting import waiting_of_ops
from solver.portions import Portion
from solver.problem import step_batch
from solver.recompute.tries import FULL
from solver.stage_planner import Place, plan_stage
from solver.states import IntArray

_LEAST_S = 0.01  # chosen: a budget is more than nothing
_TOLERANCE = 1e-2  # chosen: an estimate is worth no more
_MOST_LABELS = 50_000  # chosen: nor than some tenths of a second


@dataclass(frozen=True)
class Coarse:
    """Of all the graph's ops, by position in `Anatomy.order`. whole, split: passes of one rank that
    had them all, backward ones whole or in halves; step: each op's share of what is done once a
    step. crossing_bytes: of a cut, one way, in every microbatch. is_tight: whether there could be
    faster plans in more memory. group, mesh: of the devices that it is planned on."""

    weights: Weights
    places: IntArray
    crossing_bytes: FloatArray
    whole: Passes
    split: Passes
    step: FloatArray
    mesh: Mesh
    is_tight: bool = False
    group: int = 0

    def until(self, *, is_split: bool) -> FloatArray:
        """Up to each position: ns of forward, inputs and weights over one microbatch and of what is
        done once at the end and at the begin of a step; bytes that are static, saved, waiting."""
        whole, weights = self.split if is_split else self.whole, self.weights
        often = weights.ns - self.whole.step_ns * self.step
        often = often / max(float(often.sum()), 1e-9)
        rows = [
            *(ns * often for ns in (whole.forward_ns, whole.inputs_ns, whole.weights_ns)),
            *(ns * self.step for ns in (whole.step_ns, whole.begin_ns)),
            weights.static_bytes,
            weights.saved_bytes,
            weights.waiting_bytes,
        ]
        return np.stack([np.append(0.0, np.cumsum(own)) for own in rows])


@dataclass(frozen=True, slots=True)
class Draft:
    """What is planned, on a rank of a share. held: microbatches in flight; axes: of the finest
    mesh; groups: those that the pipeline has, whose memory counts as that of its ranks."""

    share: Share
    groups: tuple[int, ...]
    microbatches: int
    held: float
    axes: int

    def on(self, topology: Topology) -> Topology:
        """The devices of a rank, in the memory of all ranks."""
        (part, *_) = parts_of(topology, (self.share,))
        every = [topology.groups[number] for number in self.groups]
        pool = sum(own.device.memory_bytes * own.device_count for own in every)
        memory = {"memory_bytes": pool // part.topology.device_count}
        device = part.topology.device.model_copy(update=memory)
        return part.topology.model_copy(update={"device": device})


def coarse(
    request: Request, anatomy: Anatomy, own: Draft, deadline: Deadline
) -> Coarse | Infeasible | None:
    """Why no plan fits even so; None where the graph cannot be run in so many microbatches.

    Pins that the devices of a rank cannot keep are a reason where the number of ranks is open, and
    raised as bad input where it was asked for.
    """
    microbatches, part = own.microbatches, own.on(request.topology)
    whole_on_rank = request.model_copy(
        update={
            "topology": part,
            "setup": request.setup.model_copy(update={"microbatches": microbatches}),
            "budget": request.budget.model_copy(update={"max_axes": own.axes, "simplicity": 0.0}),
        }
    )
    sketches = Sketches()
    try:
        place = Place(own.held, tolerance=_TOLERANCE, max_labels=_MOST_LABELS)
        limited = within(whole_on_rank, deadline)
        ways = anatomy.foldings
        answer = plan_stage(limited, None, deadline.stop, place, sketches.write, ways)
    except RequestError as wrong:
        used_up = _used_up(request, part, own.share)
        said = RequestError(wrong.detail + used_up, pointer=wrong.pointer)
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
    use = folded.cost.memory_bytes
    return Coarse(
        weights,
        places(crossing),
        crossing,
        whole,
        split_passes(folded),
        step,
        folded.models.mesh,
        is_tight=use.total > FULL * use.capacity,
        group=own.share.group,
    )


def within(request: Request, deadline: Deadline, share: float = 1.0) -> Request:
    """The request with a share of what is left of the time as its budget."""
    left = deadline.left_s()
    if left is None:
        return request
    budget = request.budget.model_copy(update={"seconds": max(left * share, _LEAST_S)})
    return request.model_copy(update={"budget": budget})


def coarsest_axes(request: Request, part: Topology) -> int:
    """The axes of the coarsest mesh of a part; of the finest where pins name others than levels."""
    levels = {level.name for group in request.topology.groups for level in group.levels}
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


def _used_up(request: Request, part: Topology, share: Share) -> str:
    """Which levels pins name of which a rank has a single unit."""
    named = {axis for pin in request.pins for axis in _named(pin)}
    sizes = {level.name: level.size for level in part.levels}
    gone = [
        level.name
        for level in request.topology.groups[share.group].levels
        if level.size > 1 and level.name in named and sizes.get(level.name, 1) == 1
    ]
    if not gone:
        return ""
    levels = " and ".join(repr(name) for name in gone)
    return f"; {share.ranks} pipeline ranks use up level {levels}: fewer ranks leave some of it"


def _weights(
    folded: FoldedPlan, anatomy: Anatomy, whole: Passes, microbatches: int
) -> tuple[Weights, FloatArray]:
    """What a plan's ops take in a step and hold, and their shares of what is done once."""
    place = _Places(anatomy)
    ns, static, saved, waiting, passing = found = np.zeros((5, len(anatomy.order)))
    for portion, stage in zip(folded.portions, folded.stages, strict=True):
        items = [*_items(stage), *_waiting(folded.models, portion)]
        for copy in portion.copies:
            names = copy.names
            for op, tensor, own in items:
                at = place.of(op and names.get(op, op), names.get(tensor, tensor))
                if at is not None:
                    found[:4, at] += own
    for name, at in folded.unfolding.place_of_ops.items():
        if name in anatomy.place and at < len(folded.moments.passing_bytes):
            passing[anatomy.place[name]] = folded.moments.passing_bytes[at]
    often = microbatches * (whole.forward_ns + whole.inputs_ns + whole.weights_ns)
    ns *= often / max(float(ns.sum()), 1e-9)
    step = static / max(float(static.sum()), 1.0)
    return Weights(ns + whole.step_ns * step, static, saved, waiting, passing), step


def _waiting(models: Models, portion: Portion) -> Iterator[tuple[str | None, str, FloatArray]]:
    """What waits for the weights' half of a split backward pass."""
    found = waiting_of_ops(models, portion.assignment, portion.share.ops)
    for (_, root), size in found.items():
        yield None, root, np.array([0.0, 0.0, 0.0, size])


def _items(stage: Stage) -> Iterator[tuple[str | None, str, FloatArray]]:
    """Op and tensor of whatever takes time in a step, or memory, static or saved."""
    for op in stage.ops:
        yield op.op, "", np.array([op.compute_ns + op.communication_ns, 0.0, 0.0, 0.0])
    for moved in stage.redistributions:
        yield moved.op, moved.tensor, np.array([moved.counted_ns, 0.0, 0.0, 0.0])
    for own in stage.parameters:
        held = own.value_bytes + own.gradient_bytes + own.optimizer_bytes
        yield None, own.tensor, np.array([0.0, held, 0.0, 0.0])
    for made in stage.tensors:
        if made.saved_bytes:
            yield None, made.tensor, np.array([0.0, 0.0, made.saved_bytes, 0.0])


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
