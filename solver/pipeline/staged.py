"""A graph cut into stages on equal parts of a cluster: all but how anything is sharded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from costmodel.calibrations import default_calibration
from meshwright.schema import (
    Calibration,
    Graph,
    Link,
    Pin,
    Plan,
    PlanError,
    Request,
    Setup,
    Topology,
)
from solver.pins import matching_pins
from solver.pipeline.schedule import Schedule
from solver.pipeline.schedules import schedule
from solver.pipeline.split import split
from solver.pipeline.stage_graph import Anatomy, received, stage_graphs
from solver.problem import Problem, build_problem
from solver.rules.known import RECEIVE
from solver.states import IntArray


@dataclass(frozen=True)
class Staged:
    """cuts: positions in `anatomy.order`. Stage s runs on rank schedule.rank_of[s]."""

    anatomy: Anatomy
    topology: Topology
    setup: Setup
    calibration: Calibration
    schedule: Schedule
    cuts: tuple[int, ...]

    @staticmethod
    def of_plan(
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
    ) -> Staged:
        """As a plan says it; PlanError where its stages are not stages of the graph."""
        said = plan.schedule
        if said is None:
            raise PlanError("the plan has several stages and no schedule")
        anatomy = Anatomy(graph, setup.phase == "training")
        begins = []
        for stage in plan.stages:
            own = [anatomy.place[op.op] for op in stage.ops if op.op in anatomy.place]
            if not own:
                raise PlanError("the plan has a stage without ops of the graph")
            begins.append(min(own))
        if begins != sorted(begins) or begins[0] != 0:
            raise PlanError("the plan's stages are not in the order of the graph's ops")
        made = schedule(said.kind, said.ranks, plan.microbatches, said.stages_per_rank)
        if made.stages != len(plan.stages):
            raise PlanError(f"{said.kind} has {made.stages} stages, the plan {len(plan.stages)}")
        found = Staged(
            anatomy, topology, setup, calibration or default_calibration(), made, tuple(begins[1:])
        )
        for number, (stage, own_graph) in enumerate(zip(plan.stages, found.graphs, strict=True)):
            named = {op.op for op in stage.ops}
            missing = [
                op.name for op in own_graph.ops if op.name not in named and op.kind == RECEIVE
            ]
            if missing:
                raise PlanError(f"stage {number} of the plan lacks {missing[0]!r}")
        return found

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        return stage_graphs(self.anatomy, self.cuts)

    @property
    def part(self) -> Topology:
        """What one pipeline rank has."""
        return self._split[0]

    @property
    def link(self) -> Link:
        return self._split[1]

    @cached_property
    def _split(self) -> tuple[Topology, Link]:
        return split(self.topology, self.schedule.ranks)

    def devices(self, stage: int) -> IntArray:
        """The cluster's numbers of the devices that a stage runs on."""
        count = self.part.device_count
        first = self.schedule.rank_of[stage] * count
        return np.arange(first, first + count, dtype=np.int64)

    def sent(self, stage: int) -> tuple[str, ...]:
        """What goes to the next stage and has a gradient that comes back."""
        if stage + 1 == len(self.graphs):
            return ()
        gradient = self.anatomy.gradient
        return tuple(name for name in received(self.graphs[stage + 1]) if name in gradient)

    def distance(self, stage: int) -> int:
        """The slowest level of the topology between a stage and the one before, counted from the
        slowest; as many as there are levels where both are on one rank."""
        units = self.topology.device_count
        here, there = (int(self.devices(s)[0]) for s in (stage - 1, stage))
        for position, level in enumerate(self.topology.levels):
            units //= level.size
            if here // units != there // units:
                return position
        return len(self.topology.levels)

    def setup_of(self, stage: int) -> Setup:
        """The setup, of the inputs that the stage reads."""
        update: dict[str, object] = {"microbatches": self.schedule.microbatches}
        if isinstance(self.setup.dataset, tuple):
            inputs = [t.name for t in self.anatomy.graph.tensors if t.role in ("input", "label")]
            here = {tensor.name for tensor in self.graphs[stage].tensors}
            cuts = zip(inputs, self.setup.dataset, strict=True)
            update["dataset"] = tuple(own for name, own in cuts if name in here)
        return self.setup.model_copy(update=update)

    def problem(self, stage: int) -> Problem:
        """The problem of a stage alone."""
        return build_problem(
            self.graphs[stage],
            self.part,
            self.setup_of(stage),
            self.calibration,
            self.schedule.microbatches,
            in_flight=self.schedule.in_flight[stage],
            stage_link=self.link,
            sent=frozenset(self.sent(stage)),
        )

    def request(self, whole: Request, stage: int, share: float = 1.0) -> Request:
        """The request for a stage alone, in a share of the devices' memory; pins that say nothing
        of its ops are left out."""
        graph = self.graphs[stage]
        device = self.part.device
        part = self.part.model_copy(
            update={
                "device": device.model_copy(
                    update={"memory_bytes": int(device.memory_bytes * share)}
                )
            }
        )
        pins = tuple(pin for pin in whole.pins if matching_pins(graph, (pin,), None))
        module = whole.module
        if module is not None and not matching_pins(graph, (), module):
            # all of the stage is outside of what is searched
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

    def with_cuts(self, cuts: tuple[int, ...]) -> Staged:
        return replace(self, cuts=cuts)
