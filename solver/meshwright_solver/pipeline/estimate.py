"""The estimate of a configuration: its cuts and the time of its step, before stages are planned.
The time itself is computed in `cut_stages.py`.

The whole graph has several draft plans (`draft_plan.py`) with different memory and meshes. The
estimate gives each stage the fastest draft plan that fits. A rank with few microbatches in flight
can therefore be faster than one with many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from meshwright.schedules.schedule import ScheduleTable
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.pipeline.cut_stages import CutStages
from meshwright_solver.pipeline.cuts import balanced
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.stage_limits import StageLimits


@dataclass(frozen=True)
class Estimate:
    """limits: of the stages. send_ns: (stages, positions), see `sends_ns`."""

    limits: StageLimits
    send_ns: FloatArray

    @property
    def plans(self) -> tuple[DraftPlan, ...]:
        return self.limits.plans

    @property
    def order(self) -> ScheduleTable:
        return self.limits.order

    def stages(self, cuts: Sequence[int]) -> CutStages:
        """The stages between these cuts."""
        return CutStages(self.limits, self.send_ns, tuple(cuts))

    def step_ns(self, cuts: Sequence[int]) -> float:
        """The time of a step; infinite if a stage fits with no draft plan."""
        stages = self.stages(cuts)
        return stages.step_ns() if stages.fit else np.inf

    def balanced(self, at: IntArray) -> tuple[int, ...] | None:
        """The cuts with the fastest slowest stage; None if none fit."""
        limits = self.limits
        return balanced(
            [plan.profile for plan in self.plans],
            at,
            self.send_ns * limits.pace.microbatches,
            limits.in_flight,
            limits.bytes,
            limits.passing_shares,
        )

    def leanest(self, at: IntArray) -> tuple[int, ...] | None:
        """Cuts that balance the memory of the leanest draft plan, whether that fits or not."""
        limits = self.limits
        held = float(limits.in_flight.max())
        sizes = np.array([plan.profile.by_bytes(held).ns.sum() for plan in self.plans])
        leanest, profiles = [], []
        for group in dict.fromkeys(limits.groups.tolist()):
            plans = [number for number, plan in enumerate(self.plans) if plan.group == group]
            leanest.append(min(plans, key=lambda number: float(sizes[number])))
            profile = self.plans[leanest[-1]].profile.by_bytes(held)
            limit = float(limits.limits_bytes[limits.groups == group][0])
            profiles.append(replace(profile, ns=profile.ns / limit))
        free = np.where(limits.on_own_devices[leanest], np.inf, -np.inf)
        return balanced(profiles, at, 0.0 * self.send_ns, limits.in_flight[leanest], free)
