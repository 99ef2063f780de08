"""Estimates of configurations: the best cuts of each, and the time of its step.

Estimates are independent of each other. A worker process receives draft plans and returns only cuts
and sums; the parent process computes an estimate again if it needs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from meshwright.schema import RecomputePolicy, Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.pipeline.candidates import CutEstimate, Option, cut, leanest_cut
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.estimate import Estimate
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.rank_placement import parts_of, sends_ns
from meshwright_solver.pipeline.schedule_length import pace_of
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_limits import StageLimits


@dataclass(frozen=True, slots=True)
class EstimateTask:
    """A task: configurations of the same ranks and microbatches, with their draft plans.

    shift: see `cut`.
    """

    ways: tuple[DraftPlan, ...]
    configurations: tuple[Configuration, ...]
    shift: bool = False


class Estimator:
    """The estimator of one request."""

    def __init__(self, request: Request, anatomy: Anatomy) -> None:
        self.usable = request.setup.usable_memory
        self._topology = request.topology
        self._calibration = calibration_for(request)
        self._ops = len(anatomy.order)
        self._layers = layer_begins(anatomy)
        self._layers = self._layers[self._layers > 0]

    def cuts(self, task: EstimateTask) -> list[CutEstimate | None]:
        """The best cuts by configuration; None if no cuts fit."""
        return [
            self._cut(task.ways, configuration, shift=task.shift)
            for configuration in task.configurations
        ]

    def options(
        self, task: EstimateTask, cuts: Sequence[CutEstimate | None], axes: int
    ) -> list[Option]:
        """The options of the configurations with cuts. axes: see `Option`."""
        return [
            self._option(task.ways, configuration, cut_estimate, axes)
            for configuration, cut_estimate in zip(task.configurations, cuts, strict=True)
            if cut_estimate is not None
        ]

    def without(self, option: Option, more: Sequence[RecomputePolicy]) -> Option | None:
        """The option without draft plans of these recompute policies; None if it does not fit."""
        ways = tuple(way for way in option.estimate.plans if way.policy not in more)
        cut_estimate = self._cut(ways, option.configuration, shift=True) if ways else None
        return (
            None
            if cut_estimate is None
            else self._option(ways, option.configuration, cut_estimate, option.axes)
        )

    def tight(
        self, ways: tuple[DraftPlan, ...], configuration: Configuration, axes: int
    ) -> Option | None:
        """The option with the leanest cuts, also if they do not fit."""
        cut_estimate = leanest_cut(
            configuration, self.estimate(ways, configuration), self._ops, self.usable
        )
        return (
            None if cut_estimate is None else self._option(ways, configuration, cut_estimate, axes)
        )

    def estimate(self, ways: tuple[DraftPlan, ...], configuration: Configuration) -> Estimate:
        parts = parts_of(self._topology, configuration.shares)
        each = max(1, len(self._layers) // (configuration.ranks * configuration.stages_per_rank))
        limits = StageLimits(
            plans=tuple([way for way in ways if way.layers <= each]),
            pace=pace_of(*configuration.schedule_terms),
            limits_bytes=np.array(
                [part.topology.device.memory_bytes * self.usable for part in parts]
            ),
            groups=np.array([part.group for part in parts]),
        )
        efficiency = self._calibration.link_efficiency
        return Estimate(
            limits,
            sends_ns(parts, limits.order.rank_of, ways[0].crossing_bytes, efficiency),
        )

    def _cut(
        self, ways: tuple[DraftPlan, ...], configuration: Configuration, *, shift: bool
    ) -> CutEstimate | None:
        estimate = self.estimate(ways, configuration)
        return cut(configuration, estimate, self._layers, self._ops, self.usable, shift=shift)

    def _option(
        self,
        ways: tuple[DraftPlan, ...],
        configuration: Configuration,
        cut_estimate: CutEstimate,
        axes: int,
    ) -> Option:
        return Option(
            configuration, cut_estimate, axes, cache(partial(self.estimate, ways, configuration))
        )
