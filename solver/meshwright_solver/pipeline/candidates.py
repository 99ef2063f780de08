"""Options: configurations with cuts, an estimate and, once planned, stage plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
_SHIFTING_NS = 5e7  # chosen: most time for these shifts
_SHOWN = 12  # chosen: considered configurations in a plan, besides those on the Pareto front
_LEFT_OUT = 4  # chosen: of them, those without an estimate
_MOST_LABELS = 50_000  # chosen: some tenths of a second for each stage
_PLENTY = 4  # chosen: layers a stage; stages are then equal within some per cent
_SIMPLER = 0.005  # chosen: tolerated loss of time for cuts between whole layers


class CutEstimate(NamedTuple):
    """The cuts of a configuration with the estimated time of a step and peak memory.

    fullest_bytes: on the device with the highest use, its reserve included. capacity_bytes: of
    that device.
    """

    cuts: tuple[int, ...]
    ns: float
    fullest_bytes: float
    capacity_bytes: float


@dataclass(frozen=True, eq=False)
class Option:
    """A configuration with its cuts, its estimate and, once its stages are planned, their plans.

    axes: of the meshes of the estimate. estimated: returns the estimate; only the first call costs
    time. refused: the reason for no plans. error: the step of plans like this over their estimates.
    """

    configuration: Configuration
    cut: CutEstimate
    axes: int
    estimated: Callable[[], Estimate]
    plans: StagePlans | None = None
    refused: Infeasible | None = None
    error: float = 1.0

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
        return self.error * self.estimated_ns if self.plans is None else self.plans.ns

    @property
    def policies(self) -> tuple[RecomputePolicy, ...]:
        """The recompute policies of the stages, without duplicates."""
        plans = self.estimate.plans
        chosen = self.estimate.stages(self.cuts).chosen.tolist()
        return tuple(dict.fromkeys(plans[number].policy for number in chosen))

    def wishes(self, same: Sequence[int]) -> StageWishes:
        """The wishes for the stage searches. same: equal numbers for equal stages."""
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
        """Bytes on the device with the highest use, its reserve included.

        They are those of the plan. An option refused for memory has the capacity and the
        shortfall, any other option its estimate.
        """
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
            estimated_ns=self.error * self.estimated_ns,
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
    """The best cuts of a configuration; None if none fit into memory.

    layers: positions between layers, preferred at about equal time. usable: the share of a
    device's memory that is not reserved. shift: local search over shifted cuts; without it, only
    positions between layers are candidates if there are plenty.
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
    """The cuts with the least memory, for configurations without cuts that fit the estimate.

    Draft plans of the whole graph need not be the leanest, so planned stages may still fit.
    """
    cuts = configuration.cuts or estimate.leanest(places_for(estimate, ops))
    if cuts is None:
        return None
    return _cut(cuts, estimate.stages(cuts).step_ns(), estimate, usable)


def _cut(cuts: tuple[int, ...], ns: float, estimate: Estimate, usable: float) -> CutEstimate:
    return CutEstimate(cuts, ns, *estimate.stages(cuts).fullest_bytes(usable))


def places_for(estimate: Estimate, ops: int) -> IntArray:
    """Candidate positions of cuts: those that send least, or all if these are too few."""
    at = estimate.plans[0].places
    if len(at) < estimate.order.stages - 1:
        return np.arange(1, ops, dtype=np.int64)
    return at


def _missing_bytes(why: Infeasible) -> int:
    """The memory shortfall of a device in bytes; 0 for other constraints."""
    if why.constraint != "memory" or why.needed_bytes is None or why.available_bytes is None:
        return 0
    return max(0, why.needed_bytes - why.available_bytes)


def all_considered(
    options: Sequence[Option], best_ns: float, best_bytes: int
) -> tuple[Considered, ...]:
    """The fastest options, and all on the Pareto front of time and memory, by time.

    best_ns, best_bytes: of the answer's plan, which is none of the options.
    """
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


class LeftOut(NamedTuple):
    """The optimistic step of a configuration without an estimate.

    is_drafted: with the passes of a draft, else with the work of the graph.
    """

    configuration: Configuration
    ns: float
    is_drafted: bool

    def considered(self, best_ns: float) -> Considered:
        ratio = f"{self.ns / best_ns:.3f} times"
        return Considered(
            configuration=str(self.configuration),
            estimated_ns=self.ns,
            why=f"with unlimited memory it would take {ratio}"
            if self.is_drafted
            else f"stages of equal work take at least {ratio}",
            request_patch=self.configuration.request_patch,
        )


def left_out_considered(outlooks: Iterable[LeftOut], best_ns: float) -> tuple[Considered, ...]:
    """The fastest configurations without an estimate."""
    fastest = sorted(outlooks, key=lambda outlook: outlook.ns)[:_LEFT_OUT]
    return tuple(outlook.considered(best_ns) for outlook in fastest)
