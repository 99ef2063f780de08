"""The stages of a configuration with given cuts: the draft plan, time and memory of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from meshwright.schema import Mesh
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.evaluation.step_time.closed_form import Lengths
from meshwright_solver.pipeline.profile_sums import ProfileSums
from meshwright_solver.pipeline.schedule_run import Durations
from meshwright_solver.pipeline.stage_limits import StageLimits

_ROUNDED = 1e-9  # chosen: of the memory; sums of shares have rounding errors


@dataclass(frozen=True)
class CutStages:
    """limits, send_ns: of the estimate. cuts: the first op of each stage but the first."""

    limits: StageLimits
    send_ns: FloatArray
    cuts: tuple[int, ...]

    @property
    def chosen(self) -> IntArray:
        """(stages,): the number of each stage's draft plan, the fastest that fits.

        Of a stage that fits with none it is the plan that misses by least.
        """
        return self._choice[0]

    @property
    def fit(self) -> bool:
        """Whether every stage fits with its draft plan."""
        return self._choice[1]

    def step_ns(self, planned: Mapping[int, Lengths] = MappingProxyType({})) -> float:
        """The time of a step, whether the stages fit or not. planned: the passes of planned stages,
        in place of those of their draft plans."""
        stages = self._of_chosen
        transfers = self.send_ns[np.arange(1, len(self.chosen)), list(self.cuts)]
        forward_ns, inputs_ns, weights_ns, end_ns = (
            ns.copy()
            for ns in (stages.forward_ns, stages.inputs_ns, stages.weights_ns, stages.end_ns)
        )
        begin_ns = float(stages.begin_ns[0])
        for stage, lengths in planned.items():
            forward_ns[stage], inputs_ns[stage] = lengths.forward, lengths.inputs
            weights_ns[stage], end_ns[stage] = lengths.weights, lengths.end
            begin_ns = lengths.begin if stage == 0 else begin_ns
        durations = Durations(forward_ns, inputs_ns, weights_ns, np.stack([transfers, transfers]))
        return begin_ns + self.limits.pace.step_ns(durations, end_ns)

    def meshes(self) -> tuple[tuple[Mesh, ...], ...]:
        """By stage: the useful meshes of draft plans with the recompute policy of its draft."""
        plans, meshes = self.limits.plans, []
        for stage, number in enumerate(self.chosen.tolist()):
            draft = plans[number]
            useful = np.flatnonzero(np.isfinite(self.limits.bytes[:, stage])).tolist()
            near = [plans[k] for k in useful if plans[k].policy == draft.policy]
            meshes.append(tuple(dict.fromkeys([draft.mesh, *(plan.mesh for plan in near)])))
        return tuple(meshes)

    def every_mesh(self) -> tuple[tuple[Mesh, ...], ...]:
        """By stage: the meshes with the most axes of all draft plans on its devices."""
        plans, meshes = self.limits.plans, []
        for number in self.chosen.tolist():
            of_group = [plan.mesh for plan in plans if plan.group == plans[number].group]
            finest = max(len(mesh.axes) for mesh in of_group)
            meshes.append(tuple(dict.fromkeys(m for m in of_group if len(m.axes) == finest)))
        return tuple(meshes)

    def in_flight(self) -> FloatArray:
        """(stages,): microbatches whose saved bytes each stage holds."""
        in_flight: FloatArray = self.limits.in_flight[self.chosen, self._numbers]
        return in_flight

    def passing_bytes(self) -> FloatArray:
        """(stages,): the most transient memory of each stage."""
        passing: FloatArray = self._passing[self.chosen, self._numbers]
        return passing

    def rank_bytes(self) -> FloatArray:
        """(ranks,): bytes that the stages of each rank hold, transient memory included."""
        rank_of = self.limits.ranks
        held: FloatArray = np.bincount(rank_of, self._held_bytes()).astype(float)
        passing = np.zeros(self.limits.order.ranks)
        np.maximum.at(passing, rank_of, self.passing_bytes())
        return held + passing

    def fullest_bytes(self, usable: float) -> tuple[float, float]:
        """Bytes on the fullest device, its reserve included, and the capacity of that device.

        usable: the share of a device's memory that is not reserved.
        """
        capacity = self.limits.limits_bytes / usable
        total = self.rank_bytes() + capacity - self.limits.limits_bytes
        fullest = np.argmax(total / capacity)
        return float(total[fullest]), float(capacity[fullest])

    def shares(self) -> tuple[float, ...]:
        """By stage: its share of the memory of its rank.

        A stage has its estimated need, its transient memory, and an equal part of the rest.
        """
        limits, order = self.limits.limits_bytes, self.limits.order
        held, of_rank, passing = self._held_bytes(), self.rank_bytes(), self.passing_bytes()
        count = order.stages // order.ranks
        shares = []
        for stage, rank in enumerate(order.rank_of):
            spare = max(float(limits[rank] - of_rank[rank]), 0.0)
            total = max(float(of_rank[rank]), float(limits[rank]))
            shares.append((float(held[stage] + passing[stage]) + spare / count) / total)
        return tuple(shares)

    def kinds(self, same: Sequence[int] = ()) -> tuple[int, ...]:
        """By stage: the first stage that may share its plan.

        Stages share a plan if they have one draft plan, and room in the memory of any of them for
        the one that holds most, or no less than each has for itself. same: equal for stages that
        are alike; all are where there is none.
        """
        plans, in_flight, passing = self.chosen, self.in_flight(), self.passing_bytes()
        sums, count = self._of_chosen, len(plans)
        shares, limits = np.array(self.shares()), self.limits.limits_bytes[self.limits.ranks]

        def missing_bytes(joint: list[int]) -> float:
            most = in_flight[joint].max()
            needed = sums.static_bytes[joint] + most * sums.saved_bytes[joint]
            room = (shares[joint] * limits[joint]).min() - passing[joint].max()
            return float(needed.max() - room)

        missing = [
            max(0.0, missing_bytes([stage])) + _ROUNDED * limits[stage] for stage in range(count)
        ]
        looks = list(zip(plans.tolist(), same or [0] * count, strict=True))
        groups: list[list[int]] = []
        for stage in np.argsort(-in_flight, kind="stable").tolist():
            for group in groups:
                joint = [*group, stage]
                enough = min(missing[member] for member in joint)
                if looks[stage] == looks[group[0]] and missing_bytes(joint) <= enough:
                    group.append(stage)
                    break
            else:
                groups.append([stage])
        first_of = {stage: min(group) for group in groups for stage in group}
        return tuple(first_of[stage] for stage in range(count))

    @cached_property
    def _choice(self) -> tuple[IntArray, bool]:
        limits, sums = self.limits, self._sums
        held = sums.held_bytes(limits.in_flight)
        held += limits.passing_shares * self._passing
        ns = limits.pace.microbatches * sums.microbatch_ns + sums.end_ns
        fits = held <= limits.bytes
        chosen = np.where(fits, ns, np.inf).argmin(axis=0)
        none = ~fits.any(axis=0)
        chosen[none] = (held - limits.bytes).argmin(axis=0)[none]
        return chosen, not none.any()

    @cached_property
    def _sums(self) -> ProfileSums:
        """Of the stages with every draft plan, (plans, stages)."""
        return self.limits.sums.of_stages(self.cuts)

    @cached_property
    def _of_chosen(self) -> ProfileSums:
        """Of the stages with their draft plans, (stages,)."""
        return self._sums.of_plans(self.chosen)

    @cached_property
    def _passing(self) -> FloatArray:
        """(plans, stages): the most transient bytes."""
        most: FloatArray = np.maximum.reduceat(self.limits.passing_of_ops, [0, *self.cuts], axis=1)
        return most

    @property
    def _numbers(self) -> IntArray:
        return np.arange(len(self.chosen))

    def _held_bytes(self) -> FloatArray:
        return self._of_chosen.held_bytes(self.in_flight())
