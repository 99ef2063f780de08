"""Options: configurations with their cuts, what is estimated of them, and what their plans cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshwright.schema import Considered, Infeasible, RecomputePolicy
from solver.pipeline.configurations import Configuration
from solver.pipeline.cuts import moved
from solver.pipeline.estimate import Estimate
from solver.pipeline.stage_plans import StagePlans, StageWishes
from solver.states import IntArray

_MOST_TRIES = 600  # chosen: shifts of a configuration's cuts; twice the cuts of any published
_SHIFTING_NS = 5e7  # chosen: of the time that trying them may take
_SHOWN = 12  # chosen: considered configurations that a plan lists, those on the front besides
_MOST_LABELS = 50_000  # chosen: some tenths of a second for each stage
_PLENTY = 4  # chosen: layers a stage; stages are then equal within some per cent
_SIMPLER = 0.005  # chosen: by so much may cuts between whole layers be slower than others


class Cut(NamedTuple):
    """A configuration's cuts, and what a step is estimated to take with them: time, and memory on
    the device that is fullest, its reserve included."""

    cuts: tuple[int, ...]
    ns: float
    fullest_bytes: float


@dataclass
class Option:
    """A configuration, and what is known of it so far.

    axes: of the meshes of which the estimate is. estimated: makes it. refused: why it has no plan.
    """

    configuration: Configuration
    cut: Cut
    axes: int
    estimated: Callable[[], Estimate]
    plans: StagePlans | None = None
    refused: Infeasible | None = None

    @cached_property
    def estimate(self) -> Estimate:
        return self.estimated()

    @property
    def cuts(self) -> tuple[int, ...]:
        return self.cut.cuts

    @property
    def estimated_ns(self) -> float:
        return self.cut.ns

    @property
    def ns(self) -> float:
        return self.estimated_ns if self.plans is None else self.plans.ns

    @property
    def policies(self) -> tuple[RecomputePolicy, ...]:
        """What its stages may do again, each once."""
        ways = self.estimate.ways
        chosen = self.estimate.chosen(self.cuts).tolist()
        return tuple(dict.fromkeys(ways[number].policy for number in chosen))

    def wishes(self, same: Sequence[int]) -> StageWishes:
        """What the searches of its stages are told. same: equal for stages that are alike."""
        estimate, cuts = self.estimate, self.cuts
        held = estimate.flights(cuts)
        ways = [estimate.ways[number] for number in estimate.chosen(cuts).tolist()]
        return StageWishes(
            estimate.shares(cuts),
            tuple(held.tolist()),
            tuple(estimate.passing_bytes(cuts).tolist()),
            estimate.kinds(cuts, same),
            estimate.meshes(cuts),
            tuple(way.policy for way in ways),
            _MOST_LABELS,
        )

    @property
    def memory_bytes(self) -> int:
        if self.plans is None:
            return round(self.cut.fullest_bytes)
        return self.plans.priced.cost.memory_bytes.total

    def considered(self, best_ns: float, memory_bytes: int, *, on_front: bool) -> Considered:
        why = f"{'estimated to take' if self.plans is None else 'takes'} "
        why += f"{self.ns / best_ns:.3f} times"
        if self.refused is not None:
            why = self.refused.detail
        return Considered(
            configuration=str(self.configuration),
            estimated_ns=self.estimated_ns,
            cost_ns=None if self.plans is None else self.plans.ns,
            memory_bytes=memory_bytes,
            on_front=on_front,
            why=why,
        )


def cut(
    own: Configuration,
    estimate: Estimate,
    layers: IntArray,
    ops: int,
    usable: float,
    *,
    shift: bool,
) -> Cut | None:
    """The best cuts found of a configuration, None where none keep the memory.

    layers: where cuts leave layers whole; taken where that is about as fast as any. usable: the
    share of a device's memory that is not reserved. shift: whether cuts are shifted while that
    makes the step faster; else only those between layers are looked at where there are plenty.
    """
    if own.cuts is not None:
        ns = estimate.step_ns(own.cuts)
        return _cut(own.cuts, ns, estimate, usable) if ns < np.inf else None
    tries = min(_MOST_TRIES, int(_SHIFTING_NS / estimate.pace.run_ns)) if shift else 0
    found: list[tuple[float, tuple[int, ...]]] = []
    rough = not shift and len(layers) >= _PLENTY * estimate.order.stages
    for at in (layers,) if rough else (layers, places_for(estimate, ops)):
        cuts = estimate.balanced(at)
        if cuts is not None:
            cuts, ns = moved(cuts, at, estimate.step_ns, tries)
            found.append((ns if found or at is not layers else ns / (1 + _SIMPLER), cuts))
    if not found:
        return None
    cuts = min(found)[1]
    return _cut(cuts, estimate.step_ns(cuts), estimate, usable)


def leanest_cut(own: Configuration, estimate: Estimate, ops: int, usable: float) -> Cut | None:
    """Where no cuts seem to keep the memory: those that need least of it. Plans of the whole need
    not be the ones that hold least, so that stages planned for it may fit."""
    cuts = own.cuts or estimate.leanest(places_for(estimate, ops))
    if cuts is None:
        return None
    return _cut(cuts, estimate.step_anyway_ns(cuts), estimate, usable)


def _cut(cuts: tuple[int, ...], ns: float, estimate: Estimate, usable: float) -> Cut:
    return Cut(cuts, ns, estimate.of_fullest(cuts, usable))


def places_for(estimate: Estimate, ops: int) -> IntArray:
    """Where cuts may be: where they send least, or anywhere if these are too few."""
    at = estimate.ways[0].places
    if len(at) < estimate.order.stages - 1:
        return np.arange(1, ops, dtype=np.int64)
    return at


def all_considered(
    options: Sequence[Option], best_ns: float, best_bytes: int
) -> tuple[Considered, ...]:
    """The fastest, and all for which nothing is at once as fast and smaller; the best plan's step
    and memory are of none of them."""
    found = []
    least = best_bytes
    for place, own in enumerate(sorted(options, key=lambda own: own.ns)):
        size = own.memory_bytes
        on_front = own.refused is None and size < least
        if on_front:
            least = size
        if on_front or place < _SHOWN:
            found.append(own.considered(best_ns, size, on_front=on_front))
    return tuple(found)
