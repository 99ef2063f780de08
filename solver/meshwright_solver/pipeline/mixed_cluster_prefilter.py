"""A prefilter of ranks and microbatches on a mixed cluster, which has hundreds of combinations.

The whole graph is planned on a rank of every kind, with two sizes of microbatches and unlimited
memory. A linear model interpolates: a microbatch of b samples takes  T = fixed + b * each,  and
saves bytes in proportion to b. With stages cut for equal time, rank r has the share t / T_r of the
graph:

    t      = 1 / sum over ranks of 1 / T
    step  ~= t * (microbatches + bubble)

with the bubble of the schedule for equal stages. A combination is valid if the bytes that a middle
rank saves of its share fit into its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.schema import Request, step_batch
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft
from meshwright_solver.pipeline.draft_group import DraftGroup
from meshwright_solver.pipeline.drafts import Drafts
from meshwright_solver.pipeline.rank_placement import RankShare


def ranked_groups(
    request: Request, drafts: Drafts, groups: Sequence[DraftGroup], deadline: Deadline
) -> list[DraftGroup]:
    """The valid groups, the fastest estimated step first."""
    rates = _GroupRates(request, drafts, groups, deadline)
    steps = [rates.step_ns(group) for group in groups]
    order = np.argsort(steps, kind="stable").tolist()
    return [groups[place] for place in order if steps[place] < np.inf]


class _Rate(NamedTuple):
    """Time and saved bytes of one microbatch of the whole graph on a rank."""

    ns: float
    saved_bytes: float


class _GroupRates:
    def __init__(
        self, request: Request, drafts: Drafts, groups: Sequence[DraftGroup], deadline: Deadline
    ) -> None:
        self.batch = step_batch(request.graph, request.setup) or 1
        self.limits = [
            group.device.memory_bytes * drafts.estimator.usable for group in request.topology.groups
        ]
        counts = sorted({group.microbatches for group in groups})
        few = sorted({counts[len(counts) // 2], counts[-1]}, reverse=True)
        axes = {s: a for group in groups for s, a in zip(group.shares, group.axes, strict=True)}
        policy = drafts.policies[0]
        wanted = [
            Draft(share, (), policy, count, 1.0, finest)
            for share, finest in axes.items()
            for count in few
        ]
        self.known: dict[RankShare, dict[int, _Rate]] = {share: {} for share in axes}
        for draft, outcome in zip(wanted, drafts.results(wanted, deadline), strict=False):
            if isinstance(outcome, tuple):
                whole, saved_bytes = outcome[0].whole, float(outcome[0].profile.saved_bytes.sum())
                ns = whole.forward_ns + whole.inputs_ns + whole.weights_ns
                self.known[draft.share][draft.microbatches] = _Rate(ns, saved_bytes)

    def step_ns(self, group: DraftGroup) -> float:
        """The estimated step; infinite if a rank cannot run the graph or exceeds its memory."""
        if not all(self.known[share] for share in group.shares):
            return np.inf
        rates = [
            _rate_at(self.known[share], group.microbatches, self.batch) for share in group.shares
        ]
        each_ns = 1 / sum(share.ranks / r.ns for share, r in zip(group.shares, rates, strict=True))
        held = (1 + group.most_held) / 2
        for share, rate in zip(group.shares, rates, strict=True):
            if held * rate.saved_bytes * each_ns / rate.ns > self.limits[share.group]:
                return np.inf
        return each_ns * (group.microbatches + min(map(_bubble, group.configurations)))


def _rate_at(known: Mapping[int, _Rate], microbatches: int, batch: int) -> _Rate:
    """The rate with so many microbatches, interpolated from one or two known counts."""
    size = batch / microbatches
    (count, first), *others = known.items()
    away = size - batch / count
    ns = first.ns if others else first.ns * count / microbatches
    for other, rate in others:
        ns += max(0.0, rate.ns - first.ns) / (batch / other - batch / count) * away
    return _Rate(max(ns, 1.0), first.saved_bytes * size / (batch / count))


def _bubble(configuration: Configuration) -> float:
    """The bubble in microbatches, with each half of a backward pass as long as the forward pass."""
    waiting = configuration.ranks - 1
    if configuration.schedule == "zb_h1":
        return waiting / 3
    return 0.0 if configuration.schedule == "zb_v" else waiting / configuration.stages_per_rank
