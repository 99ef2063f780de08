"""The planning problems of pipeline stages: a graph cut into stages on parts of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby

import numpy as np

from meshwright.schedules.kinds import schedule
from meshwright.schedules.schedule import ScheduleTable, stages_on
from meshwright.schema import (
    Calibration,
    Graph,
    InvalidInput,
    Link,
    Pin,
    Plan,
    PlanError,
    Received,
    Request,
    Setup,
    Topology,
)
from meshwright_costmodel.calibrations import calibration_of
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.pins import matching_pins
from meshwright_solver.layouts.transfers.grouped_links import wiring_of
from meshwright_solver.layouts.transfers.links import Wiring
from meshwright_solver.pipeline.rank_placement import (
    Placement,
    RankPart,
    RankShare,
    link_between,
    parts_of,
    slowest,
)
from meshwright_solver.pipeline.stage_equivalence import alike
from meshwright_solver.pipeline.stage_graph import Anatomy, received, stage_graphs
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.stage.recompute.blocks import BlockNames, block_names


@dataclass(frozen=True, slots=True)
class StageProblem:
    """The arguments of `build_problem` for a stage, without the calibration.

    It is picklable and small, unlike the problem.
    """

    graph: Graph
    topology: Topology
    setup: Setup
    microbatches: int
    in_flight: int
    link: Link
    sent: frozenset[str]

    def problem(self, calibration: Calibration) -> Problem:
        return build_problem(
            self.graph,
            self.topology,
            self.setup,
            calibration,
            self.microbatches,
            in_flight=self.in_flight,
            stage_link=self.link,
            sent=self.sent,
        )


@dataclass(frozen=True)
class Staged:
    """A graph cut into stages, with their schedule and devices.

    cuts: positions in `anatomy.order`. Stage s runs on rank schedule.rank_of[s]. placement: of the
    ranks; by default they have equal parts of all devices, which are of one kind.
    """

    anatomy: Anatomy
    topology: Topology
    setup: Setup
    calibration: Calibration
    schedule: ScheduleTable
    cuts: tuple[int, ...]
    placement: Placement = ()

    @staticmethod
    def of_plan(
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
    ) -> Staged:
        """The stages of a plan; PlanError if they are not stages of the graph."""
        stated = plan.schedule
        if stated is None:
            raise PlanError("the plan has several stages and no schedule")
        anatomy = Anatomy(graph, setup.phase == "training")
        begins = []
        for stage in plan.stages:
            positions = [anatomy.place[op.op] for op in stage.ops if op.op in anatomy.place]
            if not positions:
                raise PlanError("the plan has a stage without ops of the graph")
            begins.append(min(positions))
        if begins != sorted(begins) or begins[0] != 0:
            raise PlanError("the plan's stages are not in the order of the graph's ops")
        order = schedule(stated.kind, stated.ranks, plan.microbatches, stated.stages_per_rank)
        if order.stages != len(plan.stages):
            raise PlanError(f"{stated.kind} has {order.stages} stages, the plan {len(plan.stages)}")
        staged = Staged(
            anatomy,
            topology,
            setup,
            calibration_of(plan, calibration),
            order,
            tuple(begins[1:]),
            _placement_of(plan, topology, order),
        )
        for number, (stage, stage_graph) in enumerate(zip(plan.stages, staged.graphs, strict=True)):
            named = {op.op for op in stage.ops}
            missing = [
                op.name for op in stage_graph.ops if op.name not in named and op.kind == RECEIVE
            ]
            if missing:
                raise PlanError(f"stage {number} of the plan lacks {missing[0]!r}")
        return staged

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        return stage_graphs(self.anatomy, self.cuts)

    @cached_property
    def parts(self) -> tuple[RankPart, ...]:
        """The devices of each pipeline rank."""
        return parts_of(self.topology, self.placement or (RankShare(0, self.schedule.ranks),))

    def part(self, stage: int) -> RankPart:
        """The devices of a stage."""
        return self.parts[self.schedule.rank_of[stage]]

    def link(self, stage: int) -> Link:
        """The slowest link between a stage and its neighbors on other ranks."""
        part = self.part(stage)
        near = [self.part(s) for s in (stage - 1, stage + 1) if 0 <= s < self.schedule.stages]
        return slowest(link_between(part, other) for other in near if other is not part)

    def alike(self, request: Request) -> list[int]:
        """By stage, the first equivalent stage, whose plan fits it too."""
        numbers = range(len(self.graphs))
        setups = [self.setup_of(stage) for stage in numbers]
        places = list(self.places)
        if request.recompute.policy != "none":
            lengths = [tuple(map(len, own)) for own in self.blocks]
            places = list(zip(places, lengths, strict=True))
        return alike(self.graphs, request, setups, places)

    @cached_property
    def blocks(self) -> tuple[BlockNames, ...]:
        """By stage, the blocks of the whole graph cut to its ops: a stage recomputes by block."""
        known, count = self.anatomy.block_names, self.schedule.microbatches
        if count not in known:
            devices = self.parts[0].topology
            problem = build_problem(
                self.anatomy.graph, devices, self.setup, self.calibration, count
            )
            known[count] = block_names(problem, find_values(problem))
        return tuple([_cut_blocks(known[count], graph) for graph in self.graphs])

    @property
    def places(self) -> tuple[Hashable, ...]:
        """By stage: keys that are equal for equal devices with equal links to neighbors."""
        return tuple((self.part(s).group, self.link(s)) for s in range(self.schedule.stages))

    def link_among(self, ranks: Collection[int]) -> Link:
        """The slowest link between any two of some ranks."""
        pairs = combinations([self.parts[rank] for rank in sorted(ranks)], 2)
        return slowest(link_between(*pair) for pair in pairs)

    @cached_property
    def wiring(self) -> Wiring:
        return wiring_of(self.topology, self.calibration)

    @cached_property
    def received(self) -> dict[Hashable, Received]:
        """The cache of `pipeline_cost.py` for tensors between stages."""
        return {}

    def devices(self, stage: int) -> IntArray:
        """The numbers in the cluster of a stage's devices, (devices,)."""
        part = self.part(stage)
        return np.arange(part.first, part.first + part.topology.device_count, dtype=np.int64)

    def sent(self, stage: int) -> tuple[str, ...]:
        """The tensors to the next stage whose gradients return."""
        if stage + 1 == len(self.graphs):
            return ()
        gradient = self.anatomy.gradient
        return tuple(name for name in received(self.graphs[stage + 1]) if name in gradient)

    def distance(self, stage: int) -> Hashable:
        """A key of the distance to the stage before: groups, and the level within one group."""
        before, part = self.part(stage - 1), self.part(stage)
        if before.group != part.group:
            return before.group, part.group
        if part is before:
            return part.group, part.group
        level = self.wiring.crossed(*(np.array([each.first]) for each in (before, part)))
        return part.group, part.group, int(level[0])

    def setup_of(self, stage: int) -> Setup:
        """The setup of a stage, with the dataset cuts of the inputs that the stage reads."""
        update: dict[str, object] = {"microbatches": self.schedule.microbatches}
        if isinstance(self.setup.dataset, tuple):
            inputs = [t.name for t in self.anatomy.graph.tensors if t.role in ("input", "label")]
            here = {tensor.name for tensor in self.graphs[stage].tensors}
            cuts = zip(inputs, self.setup.dataset, strict=True)
            update["dataset"] = tuple(dataset for name, dataset in cuts if name in here)
        return self.setup.model_copy(update=update)

    def stage_problem(self, stage: int) -> StageProblem:
        """The picklable problem of a stage alone."""
        return StageProblem(
            self.graphs[stage],
            self.part(stage).topology,
            self.setup_of(stage),
            self.schedule.microbatches,
            self.schedule.in_flight[stage],
            self.link(stage),
            frozenset(self.sent(stage)),
        )

    def problem(self, stage: int) -> Problem:
        """The problem of a stage alone."""
        return self.stage_problem(stage).problem(self.calibration)

    def request(self, whole: Request, stage: int, share: float = 1.0) -> Request:
        """The request for a stage alone, with a share of the devices' memory and its own pins."""
        graph = self.graphs[stage]
        part = self.part(stage).topology
        device = part.device
        part = part.model_copy(
            update={
                "device": device.model_copy(
                    update={"memory_bytes": int(device.memory_bytes * share)}
                )
            }
        )
        pins = tuple(pin for pin in whole.pins if matching_pins(graph, (pin,), None))
        module = whole.module
        if module is not None and not matching_pins(graph, (), module):
            # no op of the stage is in the searched submodule
            pins, module = (Pin(op="*", data_parallel=True), *pins), None
        return whole.model_copy(
            update={
                "graph": graph,
                "topology": part,
                "setup": self.setup_of(stage),
                "pins": pins,
                "module": module,
            }
        )


def _cut_blocks(names: BlockNames, graph: Graph) -> BlockNames:
    """The blocks with the ops of a part of their graph, without those that it has none of."""
    here = {op.name for op in graph.ops}
    parts = (tuple([name for name in block if name in here]) for block in names)
    return tuple([part for part in parts if part])


def _placement_of(plan: Plan, topology: Topology, order: ScheduleTable) -> Placement:
    """The placement of a plan's ranks on a mixed cluster, from their first devices.

    Raises PlanError if neighboring ranks do not have equal parts of a group.
    """
    if not topology.beside:
        return ()
    ends = np.cumsum([group.device_count for group in topology.groups])
    first = [plan.stages[stages_on(order.rank_of, r)[0]].ranks_from for r in range(order.ranks)]
    of_ranks = np.searchsorted(ends, first, side="right").tolist()
    placement = tuple(RankShare(group, len(list(ranks))) for group, ranks in groupby(of_ranks))
    if len({share.group for share in placement}) < len(placement) or max(of_ranks) == len(ends):
        raise PlanError("the plan's pipeline ranks are not neighbors on groups of the topology")
    try:
        parts_of(topology, placement)
    except InvalidInput as wrong:
        raise PlanError(wrong.detail) from None
    return placement
