"""Options: configurations with their cuts, what is estimated of them, and what their plans cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meshwright.schema import Considered, Infeasible, RecomputePolicy
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.cuts import shifted_cuts
from meshwright_solver.pipeline.estimate import Estimate
from meshwright_solver.pipeline.stage_plans import StagePlans, StageWishes

_MOST_TRIES = 600  # chosen: shifts of a configuration's cuts; twice the cuts of any published
_SHIFTING_NS = 5e7  # chosen: of the time that trying them may take
_SHOWN = 12  # chosen: considered configurations that a plan lists, those on the front besides
_MOST_LABELS = 50_000  # chosen: some tenths of a second for each stage
_PLENTY = 4  # chosen: layers a stage; stages are then equal within some per cent
_SIMPLER = 0.005  # chosen: by so much may cuts between whole layers be slower than others


class CutEstimate(NamedTuple):
    """A configuration's cuts, and what a step is estimated to take with them: time, and memory on
    the device that is fullest, its reserve included. capacity_bytes: of that device."""

    cuts: tuple[int, ...]
    ns: float
    fullest_bytes: float
    capacity_bytes: float


@dataclass(frozen=True, eq=False)
class Option:
    """A configuration with its cuts, its estimate and, once its stages are planned, their plans.

    axes: of the meshes of the estimate. estimated: returns the estimate, at a cost once. refused:
    the reason why there are no plans.
    """

    configuration: Configuration
    cut: CutEstimate
    axes: int
    estimated: Callable[[], Estimate]
    plans: StagePlans | None = None
    refused: Infeasible | None = None

    @property
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
        plans = self.estimate.plans
        chosen = self.estimate.stages(self.cuts).chosen.tolist()
        return tuple(dict.fromkeys(plans[number].policy for number in chosen))

    def wishes(self, same: Sequence[int]) -> StageWishes:
        """What the searches of its stages are told. same: equal for stages that are alike."""
        stages = self.estimate.stages(self.cuts)
        plans = [self.estimate.plans[number] for number in stages.chosen.tolist()]
        return StageWishes(
            stages.shares(),
            tuple(stages.in_flight().tolist()),
            tuple(stages.passing_bytes().tolist()),
            stages.kinds(same),
            stages.meshes(),
            tuple(plan.policy for plan in plans),
            _MOST_LABELS,
        )

    @property
    def memory_bytes(self) -> int:
        """On the fullest device, its reserve included: of its plan; of one that was refused for
        want of memory, as much more than the device has as is missing; else estimated."""
        if self.plans is not None:
            return self.plans.priced.cost.memory_bytes.total
        missing = 0 if self.refused is None else _missing_bytes(self.refused)
        return round(self.cut.capacity_bytes + missing if missing else self.cut.fullest_bytes)

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
            request_patch=self.configuration.request_patch,
        )


def cut(
    configuration: Configuration,
    estimate: Estimate,
    layers: IntArray,
    ops: int,
    usable: float,
    *,
    shift: bool,
) -> CutEstimate | None:
    """The best cuts found of a configuration, None where none keep the memory.

    layers: where cuts leave layers whole; taken where that is about as fast as any. usable: the
    share of a device's memory that is not reserved. shift: whether cuts are shifted while that
    makes the step faster; else only those between layers are looked at where there are plenty.
    """
    if configuration.cuts is not None:
        ns = estimate.step_ns(configuration.cuts)
        return _cut(configuration.cuts, ns, estimate, usable) if ns < np.inf else None
    tries = min(_MOST_TRIES, int(_SHIFTING_NS / estimate.limits.pace.run_ns)) if shift else 0
    timed_cuts: list[tuple[float, tuple[int, ...]]] = []
    rough = not shift and len(layers) >= _PLENTY * estimate.order.stages
    for at in (layers,) if rough else (layers, places_for(estimate, ops)):
        cuts = estimate.balanced(at)
        if cuts is not None:
            cuts, ns = shifted_cuts(cuts, at, estimate.step_ns, tries)
            timed_cuts.append((ns if timed_cuts or at is not layers else ns / (1 + _SIMPLER), cuts))
    if not timed_cuts:
        return None
    cuts = min(timed_cuts)[1]
    return _cut(cuts, estimate.step_ns(cuts), estimate, usable)


def leanest_cut(
    configuration: Configuration, estimate: Estimate, ops: int, usable: float
) -> CutEstimate | None:
    """Where no cuts seem to keep the memory: those that need least of it. Plans of the whole need
    not be the ones that hold least, so that stages planned for it may fit."""
    cuts = configuration.cuts or estimate.leanest(places_for(estimate, ops))
    if cuts is None:
        return None
    return _cut(cuts, estimate.stages(cuts).step_ns(), estimate, usable)


def _cut(cuts: tuple[int, ...], ns: float, estimate: Estimate, usable: float) -> CutEstimate:
    return CutEstimate(cuts, ns, *estimate.stages(cuts).fullest_bytes(usable))


def places_for(estimate: Estimate, ops: int) -> IntArray:
    """Where cuts may be: where they send least, or anywhere if these are too few."""
    at = estimate.plans[0].places
    if len(at) < estimate.order.stages - 1:
        return np.arange(1, ops, dtype=np.int64)
    return at


def _missing_bytes(why: Infeasible) -> int:
    """Bytes of a device; 0 where it is not memory that there is too little of."""
    if why.constraint != "memory" or why.needed_bytes is None or why.available_bytes is None:
        return 0
    return max(0, why.needed_bytes - why.available_bytes)


def all_considered(
    options: Sequence[Option], best_ns: float, best_bytes: int
) -> tuple[Considered, ...]:
    """The fastest, and all for which nothing is at once as fast and smaller; the best plan's step
    and memory are of none of them."""
    entries = []
    least = best_bytes
    for place, option in enumerate(sorted(options, key=lambda option: option.ns)):
        size = option.memory_bytes
        on_front = option.refused is None and size < least
        if on_front:
            least = size
        if on_front or place < _SHOWN:
            entries.append(option.considered(best_ns, size, on_front=on_front))
    return tuple(entries)
