"""The work of a graph on one device: the least time of its passes, without communication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshwright.schema import Calibration, InvalidInput, Request, Topology
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.work import Work
from meshwright_solver.problem.problem import build_problem, microbatch_symbols
from meshwright_solver.problem.sized_graph import without_batch
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_templates import OpSketches


class GraphWork:
    """The work of a request's graph by number of microbatches; computed once for each."""

    def __init__(self, request: Request, anatomy: Anatomy, calibration: Calibration) -> None:
        self.request = request
        self.anatomy = anatomy
        self.calibration = calibration
        self.folding = next(anatomy.foldings.of({}))
        self._known: dict[int, list[Work]] = {}

    def at(self, microbatches: int) -> list[Work]:
        """The work by group of devices; empty if the graph does not divide into so many."""
        if microbatches not in self._known:
            groups = self.request.topology.groups
            try:
                works = [self._work(group, microbatches) for group in groups]
            except InvalidInput:
                works = []
            self._known[microbatches] = works
        return self._known[microbatches]

    def _work(self, group: Topology, microbatches: int) -> Work:
        device, request = one_device(group), self.request
        symbols = microbatch_symbols(request.graph, request.setup, microbatches)
        setup = without_batch(request.setup).id
        terms = device.id, self.calibration.id, setup, tuple(sorted(symbols.items()))
        return self.anatomy.works.get(terms, lambda: self._computed(device, microbatches))

    def _computed(self, device: Topology, microbatches: int) -> Work:
        setup = self.request.setup.model_copy(update={"microbatches": microbatches})
        # devices that share the experts launch fewer products each
        calibration = _without_group_launches(self.calibration)
        nothing = calibration.model_copy(update={"launch_ns": 0})
        foldings = self.anatomy.foldings
        problem = build_problem(
            self.folding.graph, device, setup, calibration, microbatches, sizes=foldings.sized
        )
        values = foldings.values(problem)
        sketches = OpSketches(problem, values)
        (mesh, *_) = meshes(device, 1)
        models = Models(problem, values, mesh, sketches)
        without = Models(replace(problem, calibration=nothing), values, mesh, sketches)
        of_ops, launches = [], np.zeros(3)
        for position, op in enumerate(problem.ops):
            if position in values.views or op.op.name not in self.anatomy.place:
                continue
            model = models.ops.model(position)
            copies = self.folding.stood_for.get(("op", op.op.name), 1)
            whole = copies * np.array(models.passes_ns(model, model.choices)).min(axis=1)
            busy = copies * np.array(without.passes_ns(model, model.choices)).min(axis=1)
            of_ops.append(busy)
            launches += whole - busy
        return Work(np.array(of_ops).reshape(-1, 3), launches)


def one_device(topology: Topology) -> Topology:
    """The topology of one device alone."""
    level = topology.levels[-1].model_copy(update={"size": 1})
    return topology.model_copy(update={"levels": (level,)})


def _without_group_launches(calibration: Calibration) -> Calibration:
    """The calibration with one launch for a product with several groups."""
    none = {"group_launches": None, "group_launches_eight_bit": None}
    curves = tuple(
        each.model_copy(update={"product": each.product.model_copy(update=none)})
        for each in calibration.curves
    )
    return calibration.model_copy(update={"curves": curves})
