"""Memory limits of stages for every draft plan.

Stages of one rank share its memory as equal stages would. The schedule determines the microbatches
in flight of each stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from meshwright.schedules.schedule import ScheduleTable, stages_on
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.profile_sums import ProfileSums
from meshwright_solver.pipeline.schedule_length import Pace


@dataclass(frozen=True)
class StageLimits:
    """Memory limits of stages.

    plans: draft plans of the same ranks and microbatches. limits_bytes: (ranks,), of a device of
    each rank. groups: (ranks,), the group of devices of each rank.
    """

    plans: tuple[DraftPlan, ...]
    pace: Pace
    limits_bytes: FloatArray
    groups: IntArray

    @property
    def order(self) -> ScheduleTable:
        """The schedule, or the first rounds of a long one; they reach the peak memory of ranks."""
        return self.pace.runs[-1]

    @cached_property
    def ranks(self) -> list[int]:
        """By stage, its rank."""
        return list(self.order.rank_of)

    @cached_property
    def sums(self) -> ProfileSums:
        """Running sums of the draft plans, (plans, ops + 1)."""
        return ProfileSums.running(self.plans, is_split=self.pace.is_split)

    @cached_property
    def in_flight(self) -> FloatArray:
        """(plans, stages): the number of microbatches whose saved bytes the stage holds.

        Buffers of split backward passes are included. Stages of a rank do not reach their peaks at
        one time: the numbers are scaled so that equal stages together give the peak of the rank.
        """
        whole = self.sums.whole
        ratios = whole.waiting_bytes[:, 0] / np.maximum(whole.saved_bytes[:, 0], 1.0)
        shape = len(self.plans), self.order.stages
        in_flight: FloatArray = np.broadcast_to(held_of(self.order, ratios), shape)
        return in_flight

    @cached_property
    def bytes(self) -> FloatArray:
        """(plans, stages): the stage's part of its rank's memory.

        It is -inf for a plan of other devices, and for a plan that a faster one beats in memory of
        the whole graph.
        """
        held = self.sums.whole.held_bytes(self.in_flight)
        of_rank = np.array([np.bincount(self.order.rank_of, row) for row in held])
        share = held / np.maximum(of_rank, 1.0)[:, self.ranks]
        limits = self.limits_bytes[self.ranks] * share
        most = np.array([plan.profile.passing_bytes.max(initial=0.0) for plan in self.plans])
        needed = (held + share * most[:, None]) / np.maximum(limits, 1.0)
        is_useful = self.on_own_devices & self._unbeaten(
            np.where(self.on_own_devices, needed, np.inf)
        )
        return np.where(is_useful, limits, -np.inf)

    def _unbeaten(self, needed: FloatArray) -> BoolArray:
        """(plans, stages): whether no faster plan needs as little."""
        whole = self.sums.whole
        ns = whole.microbatch_ns[:, 0] * self.pace.microbatches + whole.end_ns[:, 0]
        order = np.argsort(ns, kind="stable")
        least = np.minimum.accumulate(needed[order], axis=0)
        before = np.concatenate([np.full_like(least[:1], np.inf), least[:-1]])
        unbeaten = np.empty(needed.shape, dtype=np.bool_)
        unbeaten[order] = needed[order] < before
        return unbeaten

    @cached_property
    def passing_shares(self) -> FloatArray:
        """(plans, stages): the share of transient memory that counts in the stage's part of the
        rank's memory. One stage of a rank runs at a time."""
        of_rank: FloatArray = self.limits_bytes[self.ranks]
        return np.where(np.isfinite(self.bytes), self.bytes / of_rank, 1.0)

    @cached_property
    def on_own_devices(self) -> BoolArray:
        """(plans, stages): whether the plan is for the devices that the stage runs on."""
        is_own: BoolArray = (
            np.array([[plan.group] for plan in self.plans]) == self.groups[self.ranks]
        )
        return is_own

    @cached_property
    def passing_of_ops(self) -> FloatArray:
        """(plans, ops): transient bytes."""
        return np.array([plan.profile.passing_bytes for plan in self.plans])


def held_of(order: ScheduleTable, ratios: FloatArray) -> FloatArray:
    """(ratios, stages): the stage holds the saved bytes of so many microbatches.

    ratios: in a split pass, of bytes that wait for the weights' half to saved bytes.
    """
    if order.is_split:
        return _held_by_ratio(order, ratios)
    held = _HELD.get(order)
    if held is None:
        held = _HELD[order] = _held_by_ratio(order, ratios[:1])  # nothing waits
    return held


# by schedule without split passes; estimates of a configuration share one schedule
_HELD: WeakKeyDictionary[ScheduleTable, FloatArray] = WeakKeyDictionary()


def _held_by_ratio(order: ScheduleTable, ratios: FloatArray) -> FloatArray:
    apart = np.zeros((len(ratios), order.stages))
    scaled = np.zeros((len(ratios), order.stages))
    for rank in range(order.ranks):
        stages = stages_on(order.rank_of, rank)
        for stage in stages:
            apart[:, stage] = order.held_at(rank, (stage,), ratios)
        share = order.held_at(rank, stages, ratios) / apart[:, stages].sum(axis=1)
        scaled[:, stages] = apart[:, stages] * share[:, None]
    return scaled
