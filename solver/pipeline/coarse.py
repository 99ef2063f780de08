"""A pipeline's stages before they are cut: the whole graph on the devices of one rank.

What the ops of a plan take and hold, one by one, is what cuts balance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from meshwright.schema import Mesh, Passes, RecomputePolicy, Stage
from solver.cost_graph import FloatArray
from solver.folded_plan import FoldedPlan
from solver.lowering import Models
from solver.pipeline.cuts import Weights
from solver.pipeline.stage_graph import Anatomy
from solver.pipeline.waiting import waiting_of_ops
from solver.portions import Portion
from solver.states import IntArray

# op, tensor, and ns, static bytes, saved bytes and waiting bytes
_Item = tuple[str | None, str, tuple[float, float, float, float]]

# chosen: shares of layers that are planned as in the other of two, and of how many that is a part
_BETWEEN = ((0.25, 4), (0.5, 2), (0.75, 4))


@dataclass(frozen=True)
class Coarse:
    """Of all the graph's ops, by position in `Anatomy.order`. whole, split: passes of one rank that
    had them all, backward ones whole or in halves; step: each op's share of what is done once a
    step. crossing_bytes: of a cut, one way, in every microbatch. group, mesh: of the devices it
    is planned on; policy: what is done again in it; layers: of how many a stage consists at the
    least that can be planned so."""

    weights: Weights
    places: IntArray
    crossing_bytes: FloatArray
    whole: Passes
    split: Passes
    step: FloatArray
    mesh: Mesh
    policy: RecomputePolicy = "none"
    group: int = 0
    layers: int = 1

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


def mixed(ways: Sequence[Coarse]) -> list[Coarse]:
    """Ways from the cheapest to the leanest, and what some layers as in the one and the others as
    in the next add up to, where one mesh and one policy have both."""
    found = list(ways)
    for mesh, policy in dict.fromkeys((own.mesh, own.policy) for own in ways):
        alike = [own for own in ways if (own.mesh, own.policy) == (mesh, policy)]
        for one, other in pairwise(alike):
            found += [_between(one, other, share, layers) for share, layers in _BETWEEN]
    return found


def undominated(ways: Sequence[Coarse]) -> list[Coarse]:
    """Ways without those that take as long as another, and hold as much, or more of each."""
    sums = np.array(
        [
            [
                own.weights.ns.sum(),
                own.weights.static_bytes.sum(),
                own.weights.saved_bytes.sum(),
                own.weights.waiting_bytes.sum(),
                own.weights.passing_bytes.max(initial=0.0),
                own.layers,
            ]
            for own in ways
        ]
    )
    kept: list[int] = []
    for number in np.lexsort(sums.T[::-1]).tolist():
        if not any((sums[other] <= sums[number]).all() for other in kept):
            kept.append(number)
    return [ways[number] for number in sorted(kept)]


def _between(one: Coarse, other: Coarse, share: float, layers: int) -> Coarse:
    def mean(own: FloatArray, its: FloatArray) -> FloatArray:
        return (1 - share) * own + share * its

    return replace(
        one,
        weights=Weights(
            mean(one.weights.ns, other.weights.ns),
            mean(one.weights.static_bytes, other.weights.static_bytes),
            mean(one.weights.saved_bytes, other.weights.saved_bytes),
            mean(one.weights.waiting_bytes, other.weights.waiting_bytes),
            np.maximum(one.weights.passing_bytes, other.weights.passing_bytes),
        ),
        whole=_passes_between(one.whole, other.whole, share),
        split=_passes_between(one.split, other.split, share),
        step=mean(one.step, other.step),
        layers=layers,
    )


def _passes_between(one: Passes, other: Passes, share: float) -> Passes:
    its = other.model_dump()
    return Passes(**{name: (1 - share) * ns + share * its[name] for name, ns in one})


def weights_of(
    folded: FoldedPlan, anatomy: Anatomy, place: Places, whole: Passes, microbatches: int
) -> tuple[Weights, FloatArray]:
    """What a plan's ops take in a step and hold, and their shares of what is done once."""
    ns, static, saved, waiting, passing = found = np.zeros((5, len(anatomy.order)))
    for portion, stage in zip(folded.portions, folded.stages, strict=True):
        items = [*_items(stage), *_waiting(folded.models, portion)]
        own = np.array([each for _, _, each in items]).reshape(-1, 4)
        for copy in portion.copies:
            places = place.of_all(items, copy.names)
            known = places >= 0
            np.add.at(found[:4].T, places[known], own[known])
    for name, at in folded.unfolding.place_of_ops.items():
        if name in anatomy.place and at < len(folded.moments.passing_bytes):
            passing[anatomy.place[name]] = folded.moments.passing_bytes[at]
    often = microbatches * (whole.forward_ns + whole.inputs_ns + whole.weights_ns)
    ns *= often / max(float(ns.sum()), 1e-9)
    step = static / max(float(static.sum()), 1.0)
    return Weights(ns + whole.step_ns * step, static, saved, waiting, passing), step


def _waiting(models: Models, portion: Portion) -> Iterator[_Item]:
    """What waits for the weights' half of a split backward pass."""
    found = waiting_of_ops(models, portion.assignment, portion.share.ops)
    for (_, root), size in found.items():
        yield None, root, (0.0, 0.0, 0.0, size)


def _items(stage: Stage) -> Iterator[_Item]:
    """Op and tensor of whatever takes time in a step, or memory, static or saved."""
    for op in stage.ops:
        yield op.op, "", (op.compute_ns + op.communication_ns, 0.0, 0.0, 0.0)
    for moved in stage.redistributions:
        yield moved.op, moved.tensor, (moved.counted_ns, 0.0, 0.0, 0.0)
    for own in stage.parameters:
        held = own.value_bytes + own.gradient_bytes + own.optimizer_bytes
        yield None, own.tensor, (0.0, held, 0.0, 0.0)
    for made in stage.tensors:
        if made.saved_bytes:
            yield None, made.tensor, (0.0, 0.0, made.saved_bytes, 0.0)


class Places:
    """Which op an item of a plan belongs to: its reader, its maker, or the first to read it."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._of_op: Mapping[str, int] = anatomy.place
        read: dict[str, int] = {}
        for at, op in enumerate(anatomy.order):
            for name in op.inputs:
                read.setdefault(name, at)
        self._of_tensor = {**read, **anatomy.made_at}

    def of_all(self, items: Sequence[_Item], names: Mapping[str, str]) -> IntArray:
        """By item, under its name in a copy: none is -1."""
        ops, tensors = self._of_op, self._of_tensor
        found = []
        for op, tensor, _ in items:
            at = None if op is None else ops.get(names.get(op, op))
            found.append(tensors.get(names.get(tensor, tensor), -1) if at is None else at)
        return np.array(found, dtype=np.int64)
