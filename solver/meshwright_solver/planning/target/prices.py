"""Prices of strategies: bounds from other strategies, then a draft of the whole graph on one rank.

The bound of a strategy scales the passes of cheaper ones to its microbatch. It assumes that, per
sequence and device, no pass becomes faster with more tensor or context parallelism, with a higher
ZeRO stage, with recomputation, or with fewer sequences in a microbatch; and that costs of tensor
and of expert parallelism add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from meshwright.schema import Infeasible, Passes, RecomputePolicy
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft import Draft, plan_draft
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.graph_work import one_device
from meshwright_solver.pipeline.optimistic_step import equal_stages_ns, repeated_forward, scaled
from meshwright_solver.pipeline.rank_placement import RankShare
from meshwright_solver.pipeline.shared_context import SharedContext
from meshwright_solver.pipeline.work import Work
from meshwright_solver.planning.degrees.degrees_planner import with_stated_terms
from meshwright_solver.planning.target.memory import ROOM, StrategyMemory
from meshwright_solver.planning.target.strategies import StrategySpace, TargetStrategy
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.stage.recompute import remade

_JOINED = 0.97  # chosen: tensor and expert parallelism together seldom cost less than apart
_SPREAD = 1.1  # chosen: where more expert parallelism takes longer, still more does
_AGAIN = 0.75  # chosen: of the forward pass; the last ops of a block are not repeated
_AXES = 4  # of the meshes of degrees: one or several for each of four kinds


@dataclass(frozen=True, slots=True)
class PricedStrategy:
    """A strategy with a schedule and the estimate of its step and of its fullest device.

    memory_bytes: without the reserve. shares: by stage, its share of its rank's memory.
    """

    strategy: TargetStrategy
    configuration: Configuration
    ns: float
    memory_bytes: float
    shares: tuple[float, ...] = ()


class Prices:
    """The prices of the strategies of one request."""

    def __init__(self, space: StrategySpace, shared: SharedContext) -> None:
        self.space = space
        self.shared = shared
        self._drafted: dict[TargetStrategy, DraftPlan] = {}
        self.memory = StrategyMemory(space)
        self._by_degrees: dict[float, dict[tuple[int, int, int], TargetStrategy]] = {}
        self._too_spread: set[TargetStrategy] = set()

    def bound_ns(self, strategy: TargetStrategy, configurations: list[Configuration]) -> float:
        """The least step of the strategy, by the work of the graph and by the drafts so far."""
        passes = self._least_passes(strategy)
        return min(equal_stages_ns(configuration, passes) for configuration in configurations)

    @cached_property
    def policies(self) -> frozenset[RecomputePolicy]:
        """The policies that recompute anything; `selective` does not without attention scores."""
        shared = self.shared
        device = one_device(shared.request.topology)
        graph, setup = shared.work.folding.graph, shared.request.setup
        foldings = shared.anatomy.foldings
        problem = build_problem(
            graph, device, setup, shared.work.calibration, self._work[0], sizes=foldings.sized
        )
        values = foldings.values(problem)
        policies = {strategy.policy for strategy in self.space.strategies}
        return frozenset(p for p in policies if p == "none" or remade(problem, values, p))

    def is_needless(self, strategy: TargetStrategy) -> bool:
        """Whether the strategy recomputes what fits without."""
        plain = replace(strategy, policy="none")
        if strategy.policy != "full" or plain not in self._drafted:
            return False
        configurations = self.space.strategies[strategy]
        return all(
            self.priced(plain, configuration).memory_bytes <= self.memory.limit_bytes / ROOM
            for configuration in configurations
        )

    def is_drafted(self, strategy: TargetStrategy) -> bool:
        return strategy in self._drafted

    def add(self, strategy: TargetStrategy, draft: DraftPlan) -> None:
        """Add a draft, which bounds other strategies from now on."""
        self._drafted[strategy] = draft
        self.memory.add(strategy, draft)
        if strategy.policy == "none":
            self._add_degrees(strategy)

    def _add_degrees(self, strategy: TargetStrategy) -> None:
        """Record a draft by its degrees, and whether fewer devices share its experts faster."""
        degrees, sequences = strategy.degrees, self.space.sequences(strategy)
        known = self._by_degrees.setdefault(sequences, {})
        known.setdefault((degrees.tp, degrees.cp, degrees.ep), strategy)
        ns = _microbatch_ns(self._drafted[strategy])
        if any(
            (tp, cp) == (degrees.tp, degrees.cp)
            and ep < degrees.ep
            and ns > _SPREAD * _microbatch_ns(self._drafted[other])
            for (tp, cp, ep), other in known.items()
        ):
            self._too_spread.add(strategy)

    def priced(self, strategy: TargetStrategy, configuration: Configuration) -> PricedStrategy:
        """The estimate of a drafted strategy with one of its schedules."""
        draft = self._drafted[strategy]
        if configuration.ranks == 1:
            profile = draft.profile
            held = profile.static_bytes.sum() + profile.saved_bytes.sum()
            held += profile.passing_bytes.max(initial=0.0)
            return PricedStrategy(
                strategy, configuration, equal_stages_ns(configuration, draft.whole), float(held)
            )
        estimate = self.shared.estimator.estimate((draft,), configuration)
        stages = estimate.stages(self.space.cuts(configuration))
        return PricedStrategy(
            strategy,
            configuration,
            stages.step_ns(),
            float(stages.rank_bytes().max()),
            stages.shares(),
        )

    def partly_recomputed(
        self, strategy: TargetStrategy, configuration: Configuration, least: int = 1
    ) -> PricedStrategy | None:
        """The strategy with so few recomputed layers, `least` or more, that the rest fits.

        None if all have to be. Time and memory are between those of none and of all.
        """
        plain = replace(strategy, policy="none", blocks=None)
        if plain not in self._drafted:
            return None
        none, full = self.priced(plain, configuration), self.priced(strategy, configuration)
        layers, freed = self.space.layers(configuration), none.memory_bytes - full.memory_bytes
        if freed <= 0:
            return None
        needed = ceil(layers * (none.memory_bytes - self.memory.limit_bytes) / freed)
        blocks = max(least, needed)
        if blocks >= layers:
            return None
        share = blocks / layers
        return replace(
            full,
            strategy=replace(strategy, blocks=blocks),
            ns=share * full.ns + (1 - share) * none.ns,
            memory_bytes=share * full.memory_bytes + (1 - share) * none.memory_bytes,
            shares=(),
        )

    def _least_passes(self, strategy: TargetStrategy) -> Passes:
        devices = self.space.request.topology.device_count / strategy.ranks
        sequences = self.space.sequences(strategy)
        found = [self._work_passes(strategy, devices)]
        found += [
            self._scaled(other, draft, strategy, sequences)
            for other, draft in self._drafted.items()
            if self._is_below(other, strategy)
        ]
        found += self._joined(strategy)
        return Passes(
            forward_ns=max(each.forward_ns for each in found),
            inputs_ns=max(each.inputs_ns for each in found),
            weights_ns=max(each.weights_ns for each in found),
            step_ns=0.0,
        )

    def _work_passes(self, strategy: TargetStrategy, devices: float) -> Passes:
        """The work of the largest microbatch, scaled to that of the strategy."""
        count, work = self._work
        share = count / strategy.microbatches
        forward, inputs, weights = (
            work.of_ops.sum(axis=0) * share / devices + work.launches
        ).tolist()
        passes = Passes(forward_ns=forward, inputs_ns=inputs, weights_ns=weights, step_ns=0.0)
        return self._with_policy(passes, strategy)

    @cached_property
    def _work(self) -> tuple[int, Work]:
        """The fewest microbatches that the graph divides into, and the work of one of them."""
        counts = sorted({strategy.microbatches for strategy in self.space.strategies})
        for count in counts:
            works = self.shared.work.at(count)
            if works:
                return count, works[0]
        return counts[0], Work(np.zeros((0, 3)), np.zeros(3))

    def _with_policy(self, passes: Passes, strategy: TargetStrategy) -> Passes:
        """The passes with recomputation: of as much as has to be, if the target has the choice."""
        if strategy.policy != "full":
            return passes
        share = self.memory.recomputed_share(strategy) if self.space.is_partial else 1.0
        return repeated_forward(passes, _AGAIN * share)

    def _scaled(
        self, other: TargetStrategy, draft: DraftPlan, strategy: TargetStrategy, sequences: float
    ) -> Passes:
        share = (sequences / strategy.sequence_devices) / (
            self.space.sequences(other) / other.sequence_devices
        )
        passes = scaled(draft.whole, share)
        return passes if other.policy == strategy.policy else self._with_policy(passes, strategy)

    def _joined(self, strategy: TargetStrategy) -> Iterator[Passes]:
        """The passes with experts, and what tensor and context parallelism add without."""
        degrees = strategy.degrees
        if degrees.ep == 1 or strategy.sequence_devices == 1:
            return
        for sequences in self._by_degrees:
            known = self._by_degrees[sequences]
            parts = [known.get(key) for key in
                     ((degrees.tp, degrees.cp, 1), (1, 1, degrees.ep), (1, 1, 1))]  # fmt: skip
            if sequences < self.space.sequences(strategy) or None in parts:
                continue
            every = [
                self._scaled(other, self._drafted[other], strategy, self.space.sequences(strategy))
                for other in parts
                if other is not None
            ]
            yield Passes(
                **{
                    name: _JOINED
                    * max(
                        0.0,
                        sum(
                            sign * getattr(passes, name)
                            for sign, passes in zip((1, 1, -1), every, strict=True)
                        ),
                    )
                    for name in ("forward_ns", "inputs_ns", "weights_ns")
                },
                step_ns=0.0,
            )

    def _is_below(self, other: TargetStrategy, strategy: TargetStrategy) -> bool:
        """Whether the passes of the other strategy are no longer, by the assumptions above."""
        one, two = other.degrees, strategy.degrees
        is_all = strategy.policy != "full" or not self.space.is_partial
        return (
            two.tp % one.tp == 0
            and two.cp % one.cp == 0
            and (one.ep == two.ep or (other in self._too_spread and two.ep % one.ep == 0))
            and one.zero <= two.zero
            and (other.policy == "none" or (is_all and other.policy == strategy.policy))
            and self.space.sequences(other) >= self.space.sequences(strategy)
        )


def draft_strategy(
    shared: SharedContext, strategy: TargetStrategy, deadline: Deadline
) -> DraftPlan | None:
    """The plan of the whole graph on the devices of one rank; None if the degrees do not fit."""
    request = with_stated_terms(strategy.request(shared.request))
    draft = Draft(
        share=RankShare(0, strategy.ranks),
        groups=(),
        policy=strategy.policy,
        microbatches=strategy.microbatches,
        held=float(strategy.ranks),
        axes=_AXES,
    )
    open_count = request.setup.model_copy(update={"microbatches": None})
    found = plan_draft(
        request.model_copy(update={"setup": open_count}), shared.anatomy, draft, deadline
    )
    if found is None or isinstance(found, Infeasible) or not found:
        return None
    return found[0]


def _microbatch_ns(draft: DraftPlan) -> float:
    return draft.whole.forward_ns + draft.whole.inputs_ns + draft.whole.weights_ns
