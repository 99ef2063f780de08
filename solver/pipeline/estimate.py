"""What a configuration will take and hold, before any of its stages is planned.

The whole graph was planned on the devices of a rank in several ways (`coarse.py`): in more memory
or less, on finer meshes or coarser. A stage is taken to be planned as in the fastest of these that
it has room for, so that a rank that holds few microbatches can be faster than one that holds many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh
from meshwright.schema.pipelining.schedule import Schedule, stages_on
from solver.cost_graph import FloatArray
from solver.pipeline.coarse import Coarse
from solver.pipeline.cuts import balanced
from solver.pipeline.pace import Pace
from solver.pipeline.passes import Durations
from solver.states import IntArray

# rows of `Coarse.until`; before them those of passes, between them what is done at the begin
_ONCE, _STATIC, _SAVED, _WAITING = 3, 5, 6, 7
_ROUNDED = 1e-9  # chosen: of the memory; shares are sums of what they are compared with


@dataclass(frozen=True)
class Estimate:
    """ways: of the same number of ranks and microbatches. limits_bytes: of a device of every rank.
    groups: of which every rank has devices. send_ns: see `sends_ns`."""

    ways: tuple[Coarse, ...]
    pace: Pace
    limits_bytes: FloatArray
    groups: IntArray
    send_ns: FloatArray

    @property
    def order(self) -> Schedule:
        """The schedule; where it is long the first rounds, in which ranks hold as much as ever."""
        return self.pace.runs[-1]

    @cached_property
    def in_flight(self) -> FloatArray:
        """By way and stage: of how many microbatches the saved bytes are what the stage holds, what
        waits for the weights' half of split passes included.

        Stages of a rank do not all hold the most at one time: the numbers are scaled so that equal
        stages together hold what they do.
        """
        saved, waiting = self._until[:, _SAVED, -1], self._until[:, _WAITING, -1]
        held = held_of(self.order, waiting / np.maximum(saved, 1.0))
        found: FloatArray = np.broadcast_to(held, (len(self.ways), self.order.stages))
        return found

    @cached_property
    def limits(self) -> FloatArray:
        """Bytes, by way and stage: its part of the rank's, as equal stages would share them; none
        in a way of other devices, and in one that another beats in time and room for the whole."""
        static, saved = (self._until[:, [row], -1] for row in (_STATIC, _SAVED))
        held = static + self.in_flight * saved
        of_rank = np.array([np.bincount(self.order.rank_of, row) for row in held])
        ranks = list(self.order.rank_of)
        share = held / np.maximum(of_rank, 1.0)[:, ranks]
        found = self.limits_bytes[ranks] * share
        most = np.array([way.weights.passing_bytes.max(initial=0.0) for way in self.ways])
        needed = (held + share * most[:, None]) / np.maximum(found, 1.0)
        own = self._on_own_devices
        useful = own & self._unbeaten(np.where(own, needed, np.inf))
        return np.where(useful, found, -np.inf)

    def _unbeaten(self, needed: FloatArray) -> NDArray[np.bool_]:
        """By way and stage: whether no faster way needs as little."""
        ns = self._until[:, :_ONCE, -1].sum(axis=1) * self.pace.microbatches
        order = np.argsort(ns + self._until[:, _ONCE, -1], kind="stable")
        least = np.minimum.accumulate(needed[order], axis=0)
        before = np.concatenate([np.full_like(least[:1], np.inf), least[:-1]])
        found = np.empty(needed.shape, dtype=np.bool_)
        found[order] = needed[order] < before
        return found

    @cached_property
    def passing(self) -> FloatArray:
        """By way and stage: the share of what passes by that counts in its part of the rank's
        memory. One stage of a rank runs at a time."""
        limits: FloatArray = self.limits_bytes[list(self.order.rank_of)]
        return np.where(np.isfinite(self.limits), self.limits / limits, 1.0)

    @cached_property
    def _on_own_devices(self) -> NDArray[np.bool_]:
        """By way and stage: whether the way is for the devices that the stage runs on."""
        groups = self.groups[list(self.order.rank_of)]
        found: NDArray[np.bool_] = np.array([[way.group] for way in self.ways]) == groups
        return found

    def balanced(self, at: IntArray) -> tuple[int, ...] | None:
        """The cuts of which the slowest stage is fastest, None where none keep the memory."""
        send_ns = self.send_ns * self.pace.microbatches
        weights = [way.weights for way in self.ways]
        return balanced(weights, at, send_ns, self.in_flight, self.limits, self.passing)

    def leanest(self, at: IntArray) -> tuple[int, ...] | None:
        """Cuts that balance what the way that needs least holds, whether that fits or not."""
        held = float(self.in_flight.max())
        sizes = np.array([way.weights.by_bytes(held).ns.sum() for way in self.ways])
        lean, weights = [], []
        for group in dict.fromkeys(self.groups.tolist()):
            own = [number for number, way in enumerate(self.ways) if way.group == group]
            lean.append(min(own, key=lambda number: float(sizes[number])))
            size = self.ways[lean[-1]].weights.by_bytes(held)
            limit = float(self.limits_bytes[self.groups == group][0])
            weights.append(replace(size, ns=size.ns / limit))
        free = np.where(self._on_own_devices[lean], np.inf, -np.inf)
        return balanced(weights, at, 0.0 * self.send_ns, self.in_flight[lean], free)

    def step_ns(self, cuts: Sequence[int]) -> float:
        """How long a step takes; infinite where a stage fits in no way."""
        found, fits = self._taken(cuts)
        return self._step_ns(cuts, found) if fits else np.inf

    def step_anyway_ns(self, cuts: Sequence[int]) -> float:
        """The same where stages that fit in no way are planned as in the leanest."""
        return self._step_ns(cuts, self._taken(cuts)[0])

    def chosen(self, cuts: Sequence[int]) -> IntArray:
        """By stage: the way in which it is planned."""
        found: IntArray = self._taken(cuts)[0]
        return found

    def meshes(self, cuts: Sequence[int]) -> tuple[tuple[Mesh, ...], ...]:
        """By stage: those on which it may be planned best with as much done again."""
        found = []
        for stage, number in enumerate(self.chosen(cuts).tolist()):
            own = self.ways[number]
            useful = np.flatnonzero(np.isfinite(self.limits[:, stage])).tolist()
            near = [self.ways[k] for k in useful if self.ways[k].policy == own.policy]
            found.append(tuple(dict.fromkeys([own.mesh, *(way.mesh for way in near)])))
        return tuple(found)

    def every_mesh(self, cuts: Sequence[int]) -> tuple[tuple[Mesh, ...], ...]:
        """By stage: all that any way has of its devices, those with the most axes."""
        found = []
        for number in self.chosen(cuts).tolist():
            own = [way.mesh for way in self.ways if way.group == self.ways[number].group]
            finest = max(len(mesh.axes) for mesh in own)
            found.append(tuple(dict.fromkeys(m for m in own if len(m.axes) == finest)))
        return tuple(found)

    def flights(self, cuts: Sequence[int]) -> FloatArray:
        """By stage: `in_flight` of the way in which it is planned."""
        found: FloatArray = self.in_flight[self.chosen(cuts), np.arange(self.order.stages)]
        return found

    def of_fullest(self, cuts: Sequence[int], usable: float) -> float:
        """Bytes on the device that is fullest, with its reserve; usable: the share without it."""
        capacity = self.limits_bytes / usable
        total = self.of_ranks(cuts) + capacity - self.limits_bytes
        return float(total[np.argmax(total / capacity)])

    def of_ranks(self, cuts: Sequence[int]) -> FloatArray:
        """Bytes that the stages of each rank hold, and what passes by at the fullest moment."""
        held: FloatArray = np.bincount(self.order.rank_of, self._held(cuts)).astype(float)
        return held + self._passing_of_ranks(cuts)

    def shares(self, cuts: Sequence[int]) -> tuple[float, ...]:
        """How stages that share a rank's devices share their memory: each has what it seems to
        need, all of what passes by while it runs, and an equal part of what is left."""
        held, of_rank = self._held(cuts), self.of_ranks(cuts)
        passing = self.passing_bytes(cuts)
        count = self.order.stages // self.order.ranks
        found = []
        for stage, rank in enumerate(self.order.rank_of):
            left = max(float(self.limits_bytes[rank] - of_rank[rank]), 0.0)
            total = max(float(of_rank[rank]), float(self.limits_bytes[rank]))
            found.append((float(held[stage] + passing[stage]) + left / count) / total)
        return tuple(found)

    @cached_property
    def _until(self) -> FloatArray:
        is_split = self.pace.is_split
        return np.stack([way.until(is_split=is_split) for way in self.ways])

    def _parts(self, cuts: Sequence[int]) -> FloatArray:
        """By way, as the rows of `Coarse.until`, and stage."""
        found: FloatArray = np.diff(self._until[:, :, [0, *cuts, self._until.shape[2] - 1]])
        return found

    def _taken(self, cuts: Sequence[int]) -> tuple[IntArray, bool]:
        """By stage the fastest way that fits, or the one that misses by least; whether all fit."""
        parts = self._parts(cuts)
        held = parts[:, _STATIC] + self.in_flight * parts[:, _SAVED]
        held += self.passing * self._passing(cuts)
        ns = self.pace.microbatches * parts[:, :_ONCE].sum(axis=1) + parts[:, _ONCE]
        fits = held <= self.limits
        chosen = np.where(fits, ns, np.inf).argmin(axis=0)
        none = ~fits.any(axis=0)
        chosen[none] = (held - self.limits).argmin(axis=0)[none]
        return chosen, not none.any()

    def passing_bytes(self, cuts: Sequence[int]) -> FloatArray:
        """By stage: the most that passes by, in the way in which it is planned."""
        found: FloatArray = self._passing(cuts)[self.chosen(cuts), np.arange(self.order.stages)]
        return found

    def kinds(self, cuts: Sequence[int], same: Sequence[int] = ()) -> tuple[int, ...]:
        """By stage, the first that may share its plan: planned in the same way, with room for what
        the one that holds most would hold in the memory of any of them, or with no less than each
        has for itself. same: equal for stages that are alike; all are where there is none."""
        ways, flights, passing = self.chosen(cuts), self.flights(cuts), self.passing_bytes(cuts)
        parts = self._parts(cuts)[ways, :, np.arange(self.order.stages)]
        shares, limits = np.array(self.shares(cuts)), self.limits_bytes[list(self.order.rank_of)]

        def missing_bytes(joint: list[int]) -> float:
            needed = parts[joint, _STATIC] + flights[joint].max() * parts[joint, _SAVED]
            room = (shares[joint] * limits[joint]).min() - passing[joint].max()
            return float(needed.max() - room)

        missing = [max(0.0, missing_bytes([stage])) for stage in range(self.order.stages)]
        missing = [own + _ROUNDED * limit for own, limit in zip(missing, limits, strict=True)]
        looks = list(zip(ways.tolist(), same or [0] * self.order.stages, strict=True))
        found = [0] * self.order.stages
        groups: list[list[int]] = []
        for stage in np.argsort(-flights, kind="stable").tolist():
            for group in groups:
                joint = [*group, stage]
                enough = min(missing[own] for own in joint)
                if looks[stage] == looks[group[0]] and missing_bytes(joint) <= enough:
                    group.append(stage)
                    break
            else:
                groups.append([stage])
        for group in groups:
            for stage in group:
                found[stage] = min(group)
        return tuple(found)

    def _passing_of_ranks(self, cuts: Sequence[int]) -> FloatArray:
        found = np.zeros(self.order.ranks)
        np.maximum.at(found, list(self.order.rank_of), self.passing_bytes(cuts))
        return found

    def _passing(self, cuts: Sequence[int]) -> FloatArray:
        """By way and stage."""
        found: FloatArray = np.maximum.reduceat(self._passing_of_ops, [0, *cuts], axis=1)
        return found

    @cached_property
    def _passing_of_ops(self) -> FloatArray:
        return np.array([way.weights.passing_bytes for way in self.ways])

    def _held(self, cuts: Sequence[int]) -> FloatArray:
        chosen, parts = self.chosen(cuts), self._parts(cuts)
        stages = np.arange(self.order.stages)
        held: FloatArray = (parts[:, _STATIC] + self.in_flight * parts[:, _SAVED])[chosen, stages]
        return held

    def _step_ns(self, cuts: Sequence[int], chosen: IntArray) -> float:
        parts = self._parts(cuts)
        taken = parts[chosen, :_STATIC, np.arange(self.order.stages)].T
        forward, inputs, weights, once, begin = taken
        transfers = self.send_ns[np.arange(1, self.order.stages), list(cuts)]
        lasting = Durations(forward, inputs, weights, np.stack([transfers, transfers]))
        return float(begin[0]) + self.pace.step_ns(lasting, once)


def held_of(order: Schedule, ratios: FloatArray) -> FloatArray:
    """By ratio and stage: of how many microbatches the saved bytes are what it holds.

    ratios: of what waits in a split pass for the weights' half to what is saved.
    """
    if not order.is_split:
        ratios = ratios[:1]  # nothing waits
    apart = np.zeros((len(ratios), order.stages))
    scaled = np.zeros((len(ratios), order.stages))
    for rank in range(order.ranks):
        stages = stages_on(order.rank_of, rank)
        for stage in stages:
            apart[:, stage] = order.held_at(rank, (stage,), ratios)
        share = order.held_at(rank, stages, ratios) / apart[:, stages].sum(axis=1)
        scaled[:, stages] = apart[:, stages] * share[:, None]
    return scaled
