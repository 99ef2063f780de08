"""Draft groups: configurations of the same ranks and microbatches, which share their drafts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshwright.schema import RecomputePolicy
from meshwright_solver.pipeline.candidates import Option
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.optimistic_step import (
    outlook_ns,
    repeated_forward,
    scaled,
    with_passes,
)
from meshwright_solver.pipeline.rank_placement import Placement

_AGAIN = 0.75  # chosen: of the forward pass; outputs of blocks and their last ops are saved


@dataclass(slots=True)
class DraftGroup:
    """Configurations of the same ranks and microbatches, with their drafts and options.

    axes: by share, of the finest mesh of its drafts. free: by share, the plan with unlimited
    memory. ways: draft plans of all shares. at_best_ns: the least optimistic step of the
    configurations.
    """

    shares: Placement
    microbatches: int
    axes: list[int]
    configurations: list[Configuration] = field(default_factory=list)
    free: list[DraftPlan] = field(default_factory=list)
    ways: list[DraftPlan] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    at_best_ns: float = 0.0

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
    def is_drafted(self) -> bool:
        """Whether every share has draft plans."""
        return {way.group for way in self.ways} == {share.group for share in self.shares}

    def draft(self, place: int, policy: RecomputePolicy, held: float, axes: int) -> Draft:
        groups = tuple(sorted(share.group for share in self.shares))
        return Draft(self.shares[place], groups, policy, self.microbatches, held, axes)

    def free_draft(self, place: int, policy: RecomputePolicy) -> Draft:
        axes = self.axes[place]
        return Draft(self.shares[place], (), policy, self.microbatches, self.most_held, axes)

    def least_ns(self, fewer: DraftGroup) -> float:
        """A bound on the optimistic step, from the group of as many ranks and fewer microbatches.

        In smaller microbatches no sample takes less time.
        """
        share = fewer.microbatches / self.microbatches
        way = with_passes(fewer.free[0], lambda passes: scaled(passes, share))
        return min(outlook_ns(configuration, way) for configuration in self.configurations)

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
