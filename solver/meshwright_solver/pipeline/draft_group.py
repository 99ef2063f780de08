"""Draft groups: configurations of the same ranks and microbatches, which share their drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from meshwright.schema import RecomputePolicy
from meshwright_solver.pipeline.candidates import LeftOut, Option
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.optimistic_step import (
    equal_stages_ns,
    outlook_ns,
    repeated_forward,
    scaled,
    with_passes,
)
from meshwright_solver.pipeline.rank_placement import Placement
from meshwright_solver.pipeline.work import Work

FINER = 1.1  # chosen: plans on finer meshes seldom gain so much
_AGAIN = 0.75  # chosen: of the forward pass; outputs of blocks and their last ops are saved


@dataclass(slots=True)
class DraftGroup:
    """Configurations of the same ranks and microbatches, with their drafts and options.

    axes: by share, of the finest mesh of its drafts. free: by share, the plan with unlimited
    memory. ways: draft plans of all shares. at_best_ns: the least optimistic step of the
    configurations. floors_ns: the least step of configurations, empty if unknown: of stages with
    equal work and without communication.
    """

    shares: Placement
    microbatches: int
    axes: list[int]
    configurations: list[Configuration] = field(default_factory=list)
    free: list[DraftPlan] = field(default_factory=list)
    ways: list[DraftPlan] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    at_best_ns: float = 0.0
    floors_ns: dict[Configuration, float] = field(default_factory=dict)
    left_out: list[Configuration] = field(default_factory=list)

    @property
    def ns(self) -> float:
        return min((option.estimated_ns for option in self.options), default=np.inf)

    @property
    def ranks(self) -> int:
        return sum(share.ranks for share in self.shares)

    @property
    def most_held(self) -> int:
        """The microbatches in flight on the first rank of 1f1b."""
        return min(self.ranks, self.microbatches)

    @property
    def held_share(self) -> float:
        """The share of the batch that the first rank of 1f1b holds, in saved activations."""
        return self.most_held / self.microbatches

    @property
    def is_drafted(self) -> bool:
        """Whether every share has draft plans."""
        return {way.group for way in self.ways} == {share.group for share in self.shares}

    def draft(self, place: int, policy: RecomputePolicy, held: float, axes: int) -> Draft:
        groups = tuple(sorted(share.group for share in self.shares))
        return Draft(self.shares[place], groups, policy, self.microbatches, held, axes)

    def free_draft(self, place: int, policy: RecomputePolicy) -> Draft:
        axes = self.axes[place]
        return Draft(self.shares[place], (), policy, self.microbatches, self.most_held, axes)

    def set_floors(self, work: Work, devices: int) -> None:
        """Set the least steps of the configurations. work: of a microbatch, on so many devices."""
        passes = work.passes(devices / self.ranks)
        self.floors_ns = {own: equal_stages_ns(own, passes) for own in self.configurations}

    def may_take(self, ns: float, fewer: DraftGroup | None = None) -> bool:
        """Whether a configuration may take less than `ns`, on finer meshes than those of drafts.

        fewer: the drafted group of as many ranks and fewer microbatches. In smaller microbatches
        no sample takes less time.
        """
        return next(self._within(ns, self._way(fewer)), None) is not None

    def keep(self, ns: float) -> None:
        """Leave out the configurations that cannot take less than `ns`."""
        kept = list(self._within(ns, self._way(None)))
        self.left_out += [own for own in self.configurations if own not in kept]
        self.configurations = kept

    def without_estimate(self) -> Iterator[LeftOut]:
        """The configurations that were left out."""
        estimated = {option.configuration for option in self.options}
        way = self._way(None)
        for own in (*self.configurations, *self.left_out):
            if own not in estimated and (way is not None or own in self.floors_ns):
                floor_ns = self.floors_ns.get(own, 0.0)
                drafted_ns = 0.0 if way is None else outlook_ns(own, way)
                yield LeftOut(own, max(floor_ns, drafted_ns), is_drafted=way is not None)

    def _way(self, fewer: DraftGroup | None) -> DraftPlan | None:
        """The plan with unlimited memory, or a faster one; None on several kinds of devices."""
        if len(self.shares) > 1:
            return None
        if self.free:
            return self.free[0]
        if fewer is None or not fewer.free:
            return None
        share = fewer.microbatches / self.microbatches
        return with_passes(fewer.free[0], lambda passes: scaled(passes, share))

    def _within(self, ns: float, way: DraftPlan | None) -> Iterator[Configuration]:
        """The configurations that may take less than `ns`. way: on coarse meshes."""
        for own in self.configurations:
            if self.floors_ns.get(own, 0.0) < ns and (
                way is None or outlook_ns(own, way) < FINER * ns
            ):
                yield own

    def gains_by_full(self, worth_ns: float) -> bool:
        """Whether drafts with full recomputation may be better than the current estimates.

        They take at least most of another forward pass. worth_ns: a step beyond which none can win.
        """
        if not self.free or not self.is_drafted or len(self.shares) > 1:
            return True
        estimates = {option.configuration: option.estimated_ns for option in self.options}
        way = with_passes(self.free[0], lambda passes: repeated_forward(passes, _AGAIN))
        return any(
            outlook_ns(configuration, way) < min(estimates.get(configuration, np.inf), worth_ns)
            for configuration in self.configurations
        )
