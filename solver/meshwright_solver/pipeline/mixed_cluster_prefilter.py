"""Which ranks and microbatches are worth drafting on a mixed cluster: it has hundreds.

The whole graph is planned on a rank of every kind in two sizes of microbatches, with memory enough.
Between them a microbatch of b samples is taken to last  T = fixed + b * each,  and to save bytes in
proportion to b. Of stages whose ranks work at such rates, cut so that all take as long, rank r has
the share t / T_r of the graph:

    t      = 1 / sum over ranks of 1 / T
    step  ~= t * (microbatches + bubble)

with the bubble of the schedule for equal stages, where what a rank in the middle
saves of its share is no more than its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.schema import Request, step_batch
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft
from meshwright_solver.pipeline.drafts import DraftGroup, Drafts
from meshwright_solver.pipeline.rank_placement import RankShare


def ranked_groups(
    request: Request, drafts: Drafts, groups: Sequence[DraftGroup], deadline: Deadline
) -> list[DraftGroup]:
    """The groups that can be, the most promising first."""
    rates = _GroupRates(request, drafts, groups, deadline)
    steps = [rates.step_ns(group) for group in groups]
    order = np.argsort(steps, kind="stable").tolist()
    return [groups[place] for place in order if steps[place] < np.inf]


class _Rate(NamedTuple):
    """Of the whole graph on a rank: of one microbatch, the time in ns and the bytes saved."""

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
        """Infinite where a rank cannot run the graph, or saves too much."""
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
    """When there are so many microbatches, from one or two other numbers of them."""
    size = batch / microbatches
    (count, first), *others = known.items()
    away = size - batch / count
    ns = first.ns if others else first.ns * count / microbatches
    for other, rate in others:
        ns += max(0.0, rate.ns - first.ns) / (batch / other - batch / count) * away
    return _Rate(max(ns, 1.0), first.saved_bytes * size / (batch / count))


def _bubble(configuration: Configuration) -> float:
    """In microbatches; the halves of a backward pass are taken to last as long as the forward."""
    waiting = configuration.ranks - 1
    if configuration.schedule == "zb_h1":
        return waiting / 3
    return 0.0 if configuration.schedule == "zb_v" else waiting / configuration.stages_per_rank
