"""Models: what depends on problem and mesh, each object shared by all of equal content."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import InitVar, dataclass, field
from math import prod
from typing import Any, TypeVar

from meshwright.schema import Calibration, Mesh, Stage
from meshwright_costmodel.collectives import Interconnect
from meshwright_costmodel.launch_overhead import launch_ns
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue, Values, find_values
from meshwright_solver.strategies.op_collectives import own_moves_ns
from meshwright_solver.strategies.op_model import OpModel
from meshwright_solver.strategies.op_models import OpModels
from meshwright_solver.strategies.op_templates import OpSketches
from meshwright_solver.strategies.optimizer_sharding import AS_SEARCHED, OptimizerSharding
from meshwright_solver.strategies.parameter_model import ParameterModel
from meshwright_solver.strategies.parameter_states import TableRows
from meshwright_solver.strategies.sparse_tables import LOOKUP

A = TypeVar("A")


@dataclass(slots=True)
class Models:
    """Everything that depends on problem and mesh, shared by content.

    followers: position of op -> its input before which nothing is moved
    (`meshwright_solver.lowering.elementwise_following`). at_rest: what is asked of parameters.
    deadline: when whoever lowers them, or looks for strategies in them, raises OutOfTime.
    """

    problem: Problem
    values: Values
    mesh: Mesh
    given_sketches: InitVar[OpSketches | None] = None
    followers: Mapping[int, int] = field(default_factory=dict)
    at_rest: OptimizerSharding = AS_SEARCHED
    deadline: Deadline = ENDLESS
    sketches: OpSketches = field(init=False)
    interconnect: Interconnect = field(init=False)
    ops: OpModels = field(init=False)
    key_of: IdentityKeys = field(default_factory=IdentityKeys)
    _shared: dict[Hashable, Any] = field(default_factory=dict)
    _parameter_of: dict[str, ParameterModel] = field(default_factory=dict)

    def __post_init__(self, given_sketches: OpSketches | None) -> None:
        self.sketches = given_sketches or OpSketches(self.problem, self.values)
        self.interconnect = Interconnect.of(
            self.problem.topology,
            self.problem.calibration,
            all_to_all=self.problem.setup.allow_all_to_all,
            stage_link=self.problem.stage_link,
        )
        levels = tuple(self.interconnect.levels.index(axis.level) for axis in self.mesh.axes)
        sizes = tuple(axis.size for axis in self.mesh.axes)
        self.ops = OpModels(self.problem, self.values, sizes, levels, self.sketches)

    @staticmethod
    def of_stage(problem: Problem, stage: Stage) -> Models:
        """Those with which a plan's stage was made. Raises PlanError where it does not fit."""
        problem = problem.of_stage(stage)
        return Models(problem, find_values(problem), stage.mesh)

    def shared(self, key: Hashable, make: Callable[[], A]) -> A:
        """The one object of this content."""
        found: A | None = self._shared.get(key)
        if found is None:
            found = self._shared[key] = make()
        return found

    def redistributions(self, space: StateSpace) -> Redistributions:
        return self.shared(
            ("moves", self.key_of(space)),
            lambda: Redistributions(space, self.ops.axis_levels, self.interconnect),
        )

    def forget_parameters(self) -> None:
        """What is asked of them is no longer the same."""
        self._parameter_of.clear()
        for key in [
            key for key in self._shared if isinstance(key, tuple) and key[0] == "parameter"
        ]:
            del self._shared[key]

    def parameter(self, value: ProblemValue) -> ParameterModel:
        found = self._parameter_of.get(value.root)
        if found is None:
            found = self._parameter_of[value.root] = self._parameter(value)
        return found

    def _parameter(self, value: ProblemValue) -> ParameterModel:
        space = self.ops.space(value.root)
        dtype = self.problem.tensors[value.root].tensor.dtype
        problem, is_table = self.problem, self._is_table(value)
        rows = self._rows(value)
        return self.shared(
            ("parameter", self.key_of(space), dtype, is_table, rows),
            lambda: ParameterModel(
                space=space,
                dtype=dtype,
                setup=problem.setup,
                microbatches=problem.rounds,
                at_rest=self.at_rest,
                host=problem.host,
                is_table=is_table,
                rows=rows,
                device=problem.topology.device,
                calibration=problem.calibration,
                interconnect=self.interconnect,
                axis_levels=self.ops.axis_levels,
                gradients=problem.gradients,
                copies=problem.copies,
            ),
        )

    def _is_table(self, value: ProblemValue) -> bool:
        """Whether one op reads a parameter, and only rows of it."""
        if len(value.readers) != 1:
            return False
        position, port = value.readers[0]
        known = self.problem.ops[position].known
        return known is not None and port in known.sparse_inputs

    def _rows(self, value: ProblemValue) -> TableRows | None:
        """None where anything but one lookup reads a parameter."""
        if not self._is_table(value):
            return None
        position, port = value.readers[0]
        reader = self.problem.ops[position]
        if reader.op.kind != LOOKUP or reader.inputs[port].tensor != value.root:
            return None
        slots, sizes = self.problem.tensors[value.root].slots, self.ops.space(value.root).slot_sizes
        within = [k for k, slot in enumerate(slots) if slot.dim > 0]
        places = {k: place for place, k in enumerate(value.slots)}
        elements = prod([sizes[places[k]] if k in places else slots[k].size for k in within])
        of_rows = frozenset([place for k, place in places.items() if k not in within])
        return TableRows(elements, of_rows, reader.name in self.at_rest.sparse)

    def look(self, value: ProblemValue) -> Hashable:
        """What values have in common that have the same states, and the same layouts in them."""
        return self.ops.sketches.tensor_look(value.root), self.key_of(self.ops.space(value.root))

    def compute_ns(self, model: OpModel, choices: IntArray) -> FloatArray:
        """Time of an op's own work in one microbatch, forward, backward and again."""
        return model.compute_ns(choices, self.problem.topology.device, self._calibration(model))

    def passes_ns(
        self, model: OpModel, choices: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time of an op's own work in the forward pass, once, and in both halves of the other."""
        return model.passes_ns(choices, self.problem.topology.device, self._calibration(model))

    def _calibration(self, model: OpModel) -> Calibration:
        """With what ops like this one take to start in the problem's stack."""
        calibration = self.problem.calibration
        own = launch_ns(calibration, self.problem.setup.execution, model.op_class)
        if own == calibration.launch_ns:
            return calibration
        return self.shared(
            ("launch", own), lambda: calibration.model_copy(update={"launch_ns": own})
        )

    def op_cost_ns(self, model: OpModel, choices: IntArray) -> FloatArray:
        """What strategies of an op cost in one step, without redistribution."""
        exposed = self.problem.calibration.exposed.activation
        return self.problem.microbatches * (
            self.compute_ns(model, choices)
            + own_moves_ns(model, choices, self.interconnect) * exposed
        )

    def reads_shared(self, value: ProblemValue) -> bool:
        """Whether a read node stands between the value at rest and its readers."""
        if len(value.readers) > 1:
            return True
        if len(value.readers) == 1 and not value.is_parameter and value.kept.wanted:
            if value.is_remade:
                return True
            known = self.problem.ops[value.readers[0][0]].known
            return known is not None and known.op_class == "matmul"
        return False
