"""Models of a problem on a mesh; equal models are one object."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from math import prod
from typing import Any, TypeVar

from meshwright.schema import Calibration, Exposed, Mesh, Stage
from meshwright.schema.stack import gathers_again
from meshwright_costmodel.collectives import Interconnect
from meshwright_costmodel.launch_overhead import launch_ns
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import ENDLESS, Deadline
from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.layouts.redistribution import WHOLE, Counted, Redistributions
from meshwright_solver.layouts.redistribution_cache import redistributions_of
from meshwright_solver.layouts.stated_layout import StatedLayouts
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Again, ProblemValue, Values, find_values
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
    """Models of ops and parameters on one mesh; equal models are one object.

    followers: position of op -> its input without a redistribution
    (`meshwright_solver.lowering.elementwise_following`). at_rest: allowed states of parameters.
    deadline: lowering and searches over these models raise OutOfTime after it. stated: the layouts
    that pins state for readers. shared_reads: roots of further values with a read node, as a plan
    document has them.
    """

    problem: Problem
    values: Values
    mesh: Mesh
    given_sketches: InitVar[OpSketches | None] = None
    followers: Mapping[int, int] = field(default_factory=dict)
    at_rest: OptimizerSharding = AS_SEARCHED
    deadline: Deadline = ENDLESS
    stated: StatedLayouts = field(default_factory=dict)
    shared_reads: frozenset[str] = frozenset()
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
        """Models of a plan's stage. Raises PlanError where the stage does not fit the problem."""
        problem = problem.of_stage(stage)
        reads = frozenset(tensor.tensor for tensor in stage.tensors if tensor.read is not None)
        return Models(problem, find_values(problem), stage.mesh, shared_reads=reads)

    def shared(self, key: Hashable, make: Callable[[], A]) -> A:
        """The cached object of a key; `make` creates it on the first call."""
        instance: A | None = self._shared.get(key)
        if instance is None:
            instance = self._shared[key] = make()
        return instance

    def redistributions(self, space: StateSpace) -> Redistributions:
        return self.shared(
            ("moves", self.key_of(space)),
            lambda: redistributions_of(space, self.ops.axis_levels, self._links_of(space)),
        )

    def _links_of(self, space: StateSpace) -> Interconnect:
        if not space.top_k:
            return self.interconnect
        most_units = self.problem.setup.expert_nodes or 0
        return replace(self.interconnect, top_k=space.top_k, most_units=most_units)

    def forget_parameters(self) -> None:
        """Drop the cached parameter models, after a change of `at_rest`."""
        self._parameter_of.clear()
        for key in [
            key for key in self._shared if isinstance(key, tuple) and key[0] == "parameter"
        ]:
            del self._shared[key]

    def parameter(self, value: ProblemValue) -> ParameterModel:
        model = self._parameter_of.get(value.root)
        if model is None:
            model = self._parameter_of[value.root] = self._parameter(value)
        return model

    def _parameter(self, value: ProblemValue) -> ParameterModel:
        space = self.ops.space(value.root)
        dtype = self.problem.tensors[value.root].tensor.dtype
        problem, is_table = self.problem, self._is_table(value)
        rows, at_rest = self._rows(value), self.at_rest.of(value.root)
        return self.shared(
            ("parameter", self.key_of(space), dtype, is_table, rows, at_rest is self.at_rest),
            lambda: ParameterModel(
                space=space,
                dtype=dtype,
                setup=problem.setup,
                microbatches=problem.rounds,
                at_rest=at_rest,
                host=problem.host,
                is_table=is_table,
                rows=rows,
                device=problem.topology.device,
                calibration=problem.calibration,
                exposed=problem.exposed,
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
        """The rows of an embedding table; None unless one lookup alone reads the parameter."""
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
        """A key that values share if they have the same states, with the same layouts."""
        return self.ops.sketches.tensor_look(value.root), self.key_of(self.ops.space(value.root))

    def compute_ns(self, model: OpModel, choices: IntArray) -> FloatArray:
        """Compute time of an op in one microbatch: forward, backward and recomputation, ns."""
        return model.compute_ns(choices, self.problem.topology.device, self._calibration(model))

    def passes_ns(
        self, model: OpModel, choices: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute times of an op, ns: forward, input gradients and weight gradients."""
        return model.passes_ns(choices, self.problem.topology.device, self._calibration(model))

    def _calibration(self, model: OpModel) -> Calibration:
        """The calibration with the launch overhead of the op's class in the problem's stack."""
        calibration = self.problem.calibration
        op_launch_ns = launch_ns(calibration, self.problem.setup.execution, model.op_class)
        if op_launch_ns == calibration.launch_ns:
            return calibration
        return self.shared(
            ("launch", op_launch_ns),
            lambda: calibration.model_copy(update={"launch_ns": op_launch_ns}),
        )

    def op_cost_ns(self, model: OpModel, choices: IntArray) -> FloatArray:
        """Time of an op in one step by strategy, without redistributions."""
        exposed = self.problem.exposed.activation
        return self.problem.microbatches * (
            self.compute_ns(model, choices)
            + own_moves_ns(model, choices, self.interconnect) * exposed
        )

    def counted(self, value: ProblemValue, exposed: Exposed) -> Counted:
        """The parts of redistributions to the value's readers that a sum with the shares `exposed`
        includes.

        Casts of parameters move ahead of their readers, as parameters do.
        """
        made_by = value.producer[0] if value.producer is not None else None
        if made_by not in self.values.weight_casts or not exposed.activation:
            return WHOLE
        return Counted(
            exposed.parameter / exposed.activation, exposed.gradient / exposed.activation
        )

    def gathered_again(self, value: ProblemValue) -> Again:
        """Whether readers gather a value again in the backward pass instead of saving it as read.

        Stacks decide it: none saves the gathered inputs of what it recomputes.
        """
        if value.is_parameter or not value.kept.again:
            return "never"
        stack = self.problem.setup.stack
        if stack is not None and (value.is_remade or gathers_again(stack)):
            return "always"
        wish = self.problem.remade.communication
        if wish != "auto" and self._is_of_recomputation(value):
            return "always" if wish == "repeat" else "never"
        return "may"

    def _is_of_recomputation(self, value: ProblemValue) -> bool:
        """Whether a value is recomputed, or a recomputed op reads it."""
        again, ops = self.problem.remade.again, self.problem.ops
        return value.is_remade or any(ops[position].name in again for position, _ in value.again)

    def reads_shared(self, value: ProblemValue) -> bool:
        """Whether a read node stands between the value at rest and its readers."""
        if len(value.readers) > 1 or value.root in self.stated:
            return True
        if value.root in self.shared_reads and not value.is_parameter:
            return True
        if len(value.readers) == 1 and not value.is_parameter and value.kept.wanted:
            if value.is_remade:
                return True
            known = self.problem.ops[value.readers[0][0]].known
            return known is not None and known.op_class == "matmul"
        return False
