"""The strategies of a target: degrees, pipeline and recomputation that its options state.

The choices of the target give the values, its function `lost` refuses combinations. A strategy that
the graph or the devices do not divide by is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from meshwright.launch_options import (
    LauncherChoices,
    Uniform,
    choices_of,
    dtype_of,
    launch_of,
    lost_of,
)
from meshwright.schedules.kinds import check_schedule
from meshwright.schema import (
    Constraints,
    Degrees,
    InvalidInput,
    OptimizerParallel,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    RecomputePolicy,
    Request,
    RequestError,
    Topology,
    step_batch,
)
from meshwright.schema.degrees import ZeroStage
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_solver.constraints.degrees_mesh import stated_mesh
from meshwright_solver.pipeline.configurations import Configuration, virtual_counts
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.rank_topology import rank_counts, split
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.planning.degrees.layer_cuts import equal_cuts

_MOST_RANKS = 64  # chosen: more than any published configuration has
_MOST_WAYS = 64  # chosen: of tensor and of context parallelism


@dataclass(frozen=True, slots=True)
class TargetStrategy:
    """A strategy without a schedule: what one draft prices.

    shard_size: devices over which ZeRO shards, None for all. blocks: layers of each stage that are
    recomputed, None for all.
    """

    ranks: int
    degrees: Degrees
    shard_size: int | None
    microbatches: int
    policy: RecomputePolicy
    blocks: int | None = None

    def request(self, request: Request) -> Request:
        """The request for the plan of this strategy, without a schedule."""
        assert request.target is not None
        parallel = None
        if choices_of(request.target).shards_all:
            parallel = OptimizerParallel(shard_size=self.shard_size, threshold_kb=0)
        elif self.shard_size is not None:
            parallel = OptimizerParallel(shard_size=self.shard_size)
        return request.model_copy(
            update={
                "target": None,
                "degrees": self.degrees,
                "pipeline": NO_PIPELINE if self.ranks == 1 else Pipeline(ranks=self.ranks),
                "constraints": Constraints(optimizer_parallel=parallel),
                "recompute": Recompute(policy=self.policy, blocks=self.blocks),
                "setup": request.setup.model_copy(update={"microbatches": self.microbatches}),
            }
        )

    @property
    def sequence_devices(self) -> int:
        """The devices that share a sequence."""
        return self.degrees.tp * self.degrees.cp


class StrategySpace:
    """The strategies of the target of a request."""

    def __init__(self, request: Request, anatomy: Anatomy) -> None:
        assert request.target is not None
        self.request = request
        self.target = request.target
        self.choices: LauncherChoices = choices_of(request.target)
        self.anatomy = anatomy
        self.batch = step_batch(request.graph, request.setup)
        symbols = {**request.graph.symbols, **request.setup.symbols}
        self.sequence = symbols.get("seq")
        self.has_experts = any(op.kind == "moe_dispatch" for op in request.graph.ops)
        self._layers_of = lru_cache(maxsize=None)(self._layers)

    @cached_property
    def strategies(self) -> dict[TargetStrategy, list[Configuration]]:
        """Every strategy, with its schedules; without schedules that lose something."""
        found: dict[TargetStrategy, list[Configuration]] = {}
        for ranks in self._ranks():
            topology = self.request.topology
            part = topology if ranks == 1 else split(topology, ranks)[0]
            for degrees, shard_size in self._degrees(part, ranks):
                for microbatches in self._microbatches(degrees):
                    configurations = list(self._configurations(ranks, microbatches))
                    for policy in self._policies():
                        strategy = TargetStrategy(ranks, degrees, shard_size, microbatches, policy)
                        whole = [c for c in configurations if self._is_whole(strategy, c)]
                        if whole:
                            found[strategy] = whole
        return found

    def cuts(self, configuration: Configuration) -> tuple[int, ...]:
        """The positions at which the stages begin, without that of the first."""
        return self._layers_of(configuration.ranks * configuration.stages_per_rank)[0]

    def sequences(self, strategy: TargetStrategy) -> float:
        """The sequences of a microbatch on the devices that share them."""
        assert self.batch is not None
        assert strategy.degrees.dp is not None
        return self.batch / (strategy.degrees.dp * strategy.microbatches)

    @property
    def is_partial(self) -> bool:
        """Whether a part of the layers may be recomputed."""
        return self.choices.partial and self.request.recompute.policy == "auto"

    def layers(self, configuration: Configuration) -> int:
        """The most layers of a stage."""
        return max(self._layers_of(configuration.ranks * configuration.stages_per_rank)[1])

    @cached_property
    def _begins(self) -> list[int]:
        begins: list[int] = layer_begins(self.anatomy).tolist()
        return begins

    def _layers(self, stages: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The cuts into so many stages, and the number of layers of each stage."""
        if stages == 1:
            return (), (len(self._begins),)
        cuts = equal_cuts(self.anatomy, self.request.setup, stages)
        ends = np.searchsorted(self._begins, [*cuts, len(self.anatomy.order)])
        return cuts, tuple(np.diff(ends, prepend=0).tolist())

    def _ranks(self) -> Iterator[int]:
        wanted = self.request.pipeline.ranks
        most = min(_MOST_RANKS, len(self._begins)) if self.choices.schedules else 1
        if self.request.setup.phase != "training":
            most = 1
        for count in rank_counts(self.request.topology):
            if count <= max(1, most) and wanted in (None, count):
                yield count

    def _degrees(self, part: Topology, ranks: int) -> Iterator[tuple[Degrees, int | None]]:
        count = part.device_count
        for tp in _divisors(count, _MOST_WAYS if self.choices.tensor else 1):
            for cp in _divisors(count // tp, _MOST_WAYS if self.choices.context else 1):
                dp = count // tp // cp
                if self.batch is None or self.batch % dp:
                    continue
                may_have_experts = self.choices.expert and self.has_experts
                for ep in _divisors(dp, dp if may_have_experts else 1):
                    for zero in self._zero(dp * cp, ranks):
                        degrees = Degrees(
                            dp=dp,
                            tp=tp,
                            cp=cp,
                            ep=ep,
                            zero=zero,
                            sequence_parallel=tp > 1 and self.choices.sequence_parallel,
                        )
                        for size in self._shard_sizes(part, degrees):
                            if _fits(part, degrees, size):
                                yield degrees, size

    def _zero(self, devices: int, ranks: int) -> tuple[ZeroStage, ...]:
        if devices == 1:
            return (0,)
        return self.choices.zero if ranks == 1 else self.choices.zero_of_pipelines

    def _shard_sizes(self, part: Topology, degrees: Degrees) -> Iterator[int | None]:
        """All devices, and those of the fastest level that hold whole states (HSDP)."""
        yield None
        if not self.choices.hybrid or degrees.zero < 2 or degrees.ep > 1:
            return
        fast = part.levels[-1].size // degrees.tp
        assert degrees.dp is not None
        if 1 < fast < degrees.dp * degrees.cp and fast % degrees.cp == 0:
            yield fast

    def _microbatches(self, degrees: Degrees) -> Iterator[int]:
        """The number of the setup, or those of 1, 2, 4 ... samples on a device, and one."""
        assert self.batch is not None
        assert degrees.dp is not None
        each = self.batch // degrees.dp
        wanted = self.request.setup.microbatches
        for samples in _divisors(each, each):
            is_tried = (samples & (samples - 1)) == 0 or samples == each
            if is_tried and wanted in (None, each // samples):
                yield each // samples

    def _configurations(self, ranks: int, microbatches: int) -> Iterator[Configuration]:
        wanted = self.request.pipeline
        if ranks == 1:
            yield Configuration(1, "1f1b", 1, microbatches)
            return
        layers = len(self._begins)
        for kind in self.choices.schedules:
            if wanted.schedule not in (None, kind):
                continue
            counts = {"interleaved_1f1b": virtual_counts(layers, ranks), "zb_v": (2,)}
            for count in counts.get(kind, (1,)):
                if wanted.stages_per_rank not in (None, count) or ranks * count > layers:
                    continue
                try:
                    check_schedule(kind, ranks, microbatches, count)
                except InvalidInput:
                    continue
                yield Configuration(ranks, kind, count, microbatches)

    def _policies(self) -> tuple[RecomputePolicy, ...]:
        wanted = self.request.recompute.policy
        return tuple(p for p in self.choices.recompute if wanted in ("auto", p))

    def _is_whole(self, strategy: TargetStrategy, configuration: Configuration) -> bool:
        """Whether the options of the target state the strategy with this schedule."""
        return next(lost_of(self.uniform(strategy, configuration), self.target), None) is None

    def uniform(self, strategy: TargetStrategy, configuration: Configuration) -> Uniform:
        """A strategy with its schedule, in the words of launch options."""
        degrees = strategy.degrees
        assert degrees.dp is not None
        replicas = degrees.dp * degrees.cp
        stages = configuration.ranks * configuration.stages_per_rank
        return self._alike.like(
            degrees=degrees,
            zero_size=(strategy.shard_size or replicas) if degrees.zero else 1,
            pipeline_ranks=strategy.ranks,
            stages_per_rank=configuration.stages_per_rank,
            schedule=None if strategy.ranks == 1 else configuration.schedule,
            layers=self._layers_of(stages)[1],
            microbatches=strategy.microbatches,
            recompute=strategy.policy,
            recomputed_layers=strategy.blocks,
        )

    @cached_property
    def _alike(self) -> Uniform:
        """The terms that all strategies of the request have."""
        setup = self.request.setup
        return Uniform(
            degrees=Degrees(),
            microbatches=1,
            global_batch=self.batch,
            sequence=self.sequence,
            is_zigzag=setup.sequence_order == "zigzag",
            precision=setup.precision,
            expert_dispatch=setup.expert_dispatch,
            copies=setup.least_copies,
            dtype=dtype_of(self.request.graph),
        )


def stated_request(plan: Plan, request: Request) -> Request:
    """The request for the degrees of a plan whose wishes name a target.

    Raises PlanError if the options of the target do not state the plan.
    """
    assert request.target is not None
    launch = launch_of(plan, request.target, graph=request.graph, setup=request.setup)
    if launch.lost:
        raise PlanError(
            f"the plan is for {request.target}, whose options do not state it: {launch.lost[0]}"
        )
    uniform, pipeline = launch.uniform, request.pipeline
    degrees, size = uniform.degrees, None
    assert degrees.dp is not None
    if degrees.zero and uniform.zero_size < degrees.dp * degrees.cp:
        size = uniform.zero_size
    strategy = TargetStrategy(uniform.pipeline_ranks, degrees, size, plan.microbatches, "none")
    stated = strategy.request(request)
    return stated.model_copy(
        update={
            "setup": request.setup,
            "recompute": request.recompute,
            "pipeline": pipeline.model_copy(
                update={"ranks": pipeline.ranks or uniform.pipeline_ranks}
            ),
        }
    )


def with_schedule(request: Request, configuration: Configuration) -> Request:
    """The request of a strategy with the schedule of a configuration."""
    if configuration.ranks == 1:
        return request
    pipeline = Pipeline(
        ranks=configuration.ranks,
        schedule=configuration.schedule,
        stages_per_rank=configuration.stages_per_rank,
    )
    return request.model_copy(update={"pipeline": pipeline})


def _fits(part: Topology, degrees: Degrees, shard_size: int | None) -> bool:
    """Whether the axes of the degrees lie on the levels of the topology."""
    try:
        stated_mesh(part, degrees, shard_size)
    except RequestError:
        return False
    return True


def _divisors(count: int, most: int) -> list[int]:
    return [ways for ways in range(1, min(count, most) + 1) if count % ways == 0]
