"""Sums of op profiles over stages.

A stage has the ops between two cuts; its time and memory are differences of running sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.pipeline.draft_plan import DraftPlan


@dataclass(frozen=True, slots=True)
class ProfileSums:
    """Sums of op profiles; every field is an array of the same shape.

    That is (plans, ops + 1) for running sums, (plans, stages) for stages of every draft plan, and
    (stages,) for stages with one draft plan each. forward_ns, inputs_ns, weights_ns: passes over
    one microbatch. end_ns, begin_ns: once a step. static_bytes, saved_bytes, waiting_bytes: see
    `OpProfile`.
    """

    _fields: FloatArray  # (8, *shape): one array for speed, as cuts shift hundreds of times

    @staticmethod
    def running(plans: Sequence[DraftPlan], *, is_split: bool) -> ProfileSums:
        """Sums over the ops before each position. is_split: split backward passes."""
        return ProfileSums(np.stack([_running(plan, is_split=is_split) for plan in plans], axis=1))

    def of_stages(self, cuts: Sequence[int]) -> ProfileSums:
        """Of running sums: the sums of each stage."""
        ends = [0, *cuts, self._fields.shape[2] - 1]
        return ProfileSums(np.diff(self._fields[:, :, ends]))

    def of_plans(self, plans: IntArray) -> ProfileSums:
        """Of stages of every draft plan: each stage with the plan of this number, (stages,)."""
        return ProfileSums(self._fields[:, plans, np.arange(len(plans))])

    @property
    def whole(self) -> ProfileSums:
        """Of running sums: those over all ops, of the shape (plans, 1)."""
        return ProfileSums(self._fields[:, :, -1:])

    @property
    def forward_ns(self) -> FloatArray:
        return self._field(0)

    @property
    def inputs_ns(self) -> FloatArray:
        return self._field(1)

    @property
    def weights_ns(self) -> FloatArray:
        return self._field(2)

    @property
    def end_ns(self) -> FloatArray:
        return self._field(3)

    @property
    def begin_ns(self) -> FloatArray:
        return self._field(4)

    @property
    def static_bytes(self) -> FloatArray:
        return self._field(5)

    @property
    def saved_bytes(self) -> FloatArray:
        return self._field(6)

    @property
    def waiting_bytes(self) -> FloatArray:
        return self._field(7)

    @property
    def microbatch_ns(self) -> FloatArray:
        """All passes over one microbatch."""
        total: FloatArray = self.forward_ns + self.inputs_ns + self.weights_ns
        return total

    def held_bytes(self, in_flight: FloatArray) -> FloatArray:
        """Static bytes and the saved bytes of so many microbatches, in the shape of the fields."""
        held: FloatArray = self.static_bytes + in_flight * self.saved_bytes
        return held

    def _field(self, number: int) -> FloatArray:
        field: FloatArray = self._fields[number]
        return field


def _running(plan: DraftPlan, *, is_split: bool) -> FloatArray:
    """The fields of one draft plan, (8, ops + 1)."""
    passes, profile = plan.split if is_split else plan.whole, plan.profile
    often = profile.ns - plan.whole.step_ns * plan.step_shares
    often = often / max(float(often.sum()), 1e-9)
    fields = [
        *(ns * often for ns in (passes.forward_ns, passes.inputs_ns, passes.weights_ns)),
        *(ns * plan.step_shares for ns in (passes.step_ns, passes.begin_ns)),
        profile.static_bytes,
        profile.saved_bytes,
        profile.waiting_bytes,
    ]
    return np.stack([np.append(0.0, np.cumsum(field)) for field in fields])
