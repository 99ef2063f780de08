"""Draft plans: plans of the whole graph, before cuts, on the devices of one pipeline rank.

Cuts balance the time and the memory of their ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from meshwright.schema import Mesh, Passes, RecomputePolicy
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.pipeline.op_profile import OpProfile

# chosen: shares of layers with the leaner of two plans, and the layers that such a share needs
_BETWEEN = ((0.25, 4), (0.5, 2), (0.75, 4))


@dataclass(frozen=True)
class DraftPlan:
    """A plan of the whole graph on the devices of a rank.

    places: positions where cuts may be. crossing_bytes: (ops,), sent by a cut before each position,
    one way, in every microbatch. whole, split: passes of a rank that has all ops, with backward
    passes whole or in halves. step_shares: (ops,), the share of each op in the work done once a
    step. group, mesh: of the devices. policy: of recomputation. layers: the least number of layers
    of a stage that can be planned so.
    """

    profile: OpProfile
    places: IntArray
    crossing_bytes: FloatArray
    whole: Passes
    split: Passes
    step_shares: FloatArray
    mesh: Mesh
    policy: RecomputePolicy = "none"
    group: int = 0
    layers: int = 1


def mixed(plans: Sequence[DraftPlan]) -> list[DraftPlan]:
    """Draft plans from the fastest to the leanest, and mixtures of neighbors.

    A mixture has some layers as in one plan and the others as in the next plan with the same mesh
    and policy.
    """
    mixtures = list(plans)
    for mesh, policy in dict.fromkeys((plan.mesh, plan.policy) for plan in plans):
        alike = [plan for plan in plans if (plan.mesh, plan.policy) == (mesh, policy)]
        for one, other in pairwise(alike):
            mixtures += [_mixture(one, other, share, layers) for share, layers in _BETWEEN]
    return mixtures


def undominated(plans: Sequence[DraftPlan]) -> list[DraftPlan]:
    """The draft plans that no other one equals or beats in time and in every kind of memory."""
    sums = np.array(
        [
            [
                plan.profile.ns.sum(),
                plan.profile.static_bytes.sum(),
                plan.profile.saved_bytes.sum(),
                plan.profile.waiting_bytes.sum(),
                plan.profile.passing_bytes.max(initial=0.0),
                plan.layers,
            ]
            for plan in plans
        ]
    )
    front: list[int] = []
    for number in np.lexsort(sums.T[::-1]).tolist():
        if not any((sums[other] <= sums[number]).all() for other in front):
            front.append(number)
    return [plans[number] for number in sorted(front)]


def _mixture(one: DraftPlan, other: DraftPlan, share: float, layers: int) -> DraftPlan:
    """share: of the ops that are as in the other plan."""

    def mean(first: FloatArray, second: FloatArray) -> FloatArray:
        return (1 - share) * first + share * second

    a, b = one.profile, other.profile
    return replace(
        one,
        profile=OpProfile(
            ns=mean(a.ns, b.ns),
            static_bytes=mean(a.static_bytes, b.static_bytes),
            saved_bytes=mean(a.saved_bytes, b.saved_bytes),
            waiting_bytes=mean(a.waiting_bytes, b.waiting_bytes),
            passing_bytes=np.maximum(a.passing_bytes, b.passing_bytes),
        ),
        whole=_passes_between(one.whole, other.whole, share),
        split=_passes_between(one.split, other.split, share),
        step_shares=mean(one.step_shares, other.step_shares),
        layers=layers,
    )


def _passes_between(one: Passes, other: Passes, share: float) -> Passes:
    second = other.model_dump()
    return Passes(**{name: (1 - share) * ns + share * second[name] for name, ns in one})
