"""Lowering: a problem on one mesh as a cost graph.

    node         states                          cost                       memory
    op           its strategies                  compute, statistics, halo  -
    rest         as its producer leaves a value  -                          saved by the producer
    read         layout x saved as read or       -                          -
                 gathered again
    parameter    ParameterModel.states           update, spread             value, gradient, state

    edge              cost                                         memory
    op -> rest        projection: the strategy decides the layout
    rest -> read      redistribution, forward and backward; its    the saved copy
                      forward part again where the rest is saved
    read -> op        the same, forward part again where the op
                      needs this input in its backward pass
    rest -> op        (one reader) redistribution                  the saved copy
    parameter -> op   ParameterModel.read_ns

All costs are for one optimizer step: those of activations count once for each microbatch. A read
node stands where several inputs share what they read, or where a saved value feeds a matrix
product; what has one other reader is saved as read. Arrays are shared by content, so that repeated
blocks are built of the very same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Interconnect
from meshwright.schema import Mesh
from solver.cost_graph import CostGraph, Edge, Node, Projection
from solver.elementwise import with_followers
from solver.op_model import OpModel
from solver.op_models import OpModels
from solver.op_sketches import OpSketches
from solver.own_moves import own_moves_ns
from solver.parameters import ParameterModel
from solver.pins import Allowed
from solver.problem import Problem
from solver.read_states import ReadStates, once_and_again, saved_as_read_bytes, saved_bytes
from solver.redistribution import Redistributions
from solver.states import FloatArray, IntArray, StateSpace
from solver.values import Value, Values

A = TypeVar("A")


@dataclass(slots=True)
class Models:
    """Everything that depends on problem and mesh, shared by content.

    followers: position of op -> its input before which nothing is moved (`solver.elementwise`).
    """

    problem: Problem
    values: Values
    mesh: Mesh
    given_sketches: InitVar[OpSketches | None] = None
    followers: Mapping[int, int] = field(default_factory=dict)
    sketches: OpSketches = field(init=False)
    interconnect: Interconnect = field(init=False)
    ops: OpModels = field(init=False)
    _shared: dict[Hashable, Any] = field(default_factory=dict)

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

    def shared(self, key: Hashable, make: Callable[[], A]) -> A:
        """The one object of this content."""
        found: A | None = self._shared.get(key)
        if found is None:
            found = self._shared[key] = make()
        return found

    def redistributions(self, space: StateSpace) -> Redistributions:
        return self.shared(
            ("moves", id(space)),
            lambda: Redistributions(space, self.ops.axis_levels, self.interconnect),
        )

    def parameter(self, value: Value) -> ParameterModel:
        space = self.ops.space(value.root)
        dtype = self.problem.tensors[value.root].tensor.dtype
        return self.shared(
            ("parameter", id(space), dtype),
            lambda: ParameterModel(
                space,
                dtype,
                self.problem.setup,
                self.problem.microbatches,
                self.problem.topology.device,
                self.problem.calibration,
                self.interconnect,
                self.ops.axis_levels,
            ),
        )

    def compute_ns(self, model: OpModel, choices: IntArray) -> FloatArray:
        """Time of an op's own work in one microbatch, forward and backward."""
        forward, backward = self.passes_ns(model, choices)
        return forward + backward

    def passes_ns(self, model: OpModel, choices: IntArray) -> tuple[FloatArray, FloatArray]:
        """`compute_ns` of the forward and of the backward pass.

        Compiled, memory-bound ops run inside their neighbours' kernels and launch none.
        """
        calibration = self.problem.calibration
        if self.problem.setup.execution == "compiled" and model.op_class == "memory":
            calibration = calibration.model_copy(update={"launch_ns": 0})
        return model.passes_ns(choices, self.problem.topology.device, calibration)

    def op_cost_ns(self, model: OpModel, choices: IntArray) -> FloatArray:
        """What strategies of an op cost in one step, without redistribution."""
        exposed = self.problem.calibration.exposed.activation
        return self.problem.microbatches * (
            self.compute_ns(model, choices)
            + own_moves_ns(model, choices, self.interconnect) * exposed
        )

    def reads_shared(self, value: Value) -> bool:
        """Whether a read node stands between the value at rest and its readers."""
        if len(value.readers) > 1:
            return True
        if len(value.readers) == 1 and value.is_saved and not value.is_parameter:
            known = self.problem.ops[value.readers[0][0]].known
            return known is not None and known.op_class == "matmul"
        return False


@dataclass(slots=True)
class Lowered:
    """A cost graph and what its nodes stand for, by position of op and by root of value."""

    graph: CostGraph
    models: Models
    op_node: dict[int, int]
    op_choices: dict[int, IntArray]
    rest_node: dict[str, int]
    rest_states: dict[str, IntArray]
    read_node: dict[str, int]
    read_states: dict[str, ReadStates]
    parameter_node: dict[str, int]


def lower(
    models: Models,
    pinned: Mapping[int, Allowed],
    memory_limit_bytes: float | None,
) -> Lowered:
    """The cost graph of a problem on a mesh; pinned: position of op -> strategies it may have."""
    lowered = _Lowering(models, pinned).run(memory_limit_bytes)
    return with_followers(lowered) if models.followers else lowered


class _Lowering:
    def __init__(self, models: Models, pinned: Mapping[int, Allowed]) -> None:
        self.models = models
        self.pinned = pinned
        self.nodes: list[Node] = []
        self.edges: list[Edge | Projection] = []
        self.out = Lowered(CostGraph((), ()), models, {}, {}, {}, {}, {}, {}, {})

    def run(self, memory_limit_bytes: float | None) -> Lowered:
        problem, values = self.models.problem, self.models.values
        for position, op in enumerate(problem.ops):
            if position in values.views:
                continue
            for port in op.inputs:
                value = values.value_of[port.tensor]
                if value.is_parameter and value.root not in self.out.parameter_node:
                    self._add_parameter(value)
            self._add_op(position)
            for k, port in enumerate(op.outputs):
                self._add_rest(values.value_of[port.tensor], position, k)
        self.out.graph = CostGraph(tuple(self.nodes), tuple(self.edges), memory_limit_bytes)
        return self.out

    def _node(self, name: str, cost: FloatArray, memory: FloatArray | None = None) -> int:
        self.nodes.append(Node(name, cost, memory))
        return len(self.nodes) - 1

    def _add_parameter(self, value: Value) -> None:
        model = self.models.parameter(value)
        key = ("parameter node", model)
        cost, memory = self.models.shared(
            key,
            lambda: (
                model.rest_ns(model.states),
                np.asarray(sum(model.memory_bytes(model.states)), dtype=np.float64),
            ),
        )
        node = self._node(value.root, cost, memory)
        self.out.parameter_node[value.root] = node
        if self.models.reads_shared(value):
            read = self._add_read(value)
            needed = self.out.read_states[value.root].layouts
            self.edges.append(Edge(node, read, self._parameter_edge(model, needed)))

    def _parameter_edge(self, model: ParameterModel, needed: IntArray) -> FloatArray:
        gathers = 2 if model.trained else 1
        key = ("parameter edge", model, id(needed))
        return self.models.shared(key, lambda: model.read_ns(model.states, needed, gathers))

    def _add_op(self, position: int) -> None:
        models = self.models
        op = models.problem.ops[position]
        model = models.ops.model(position)
        allowed = self.pinned.get(position)
        if allowed is None:
            choices = model.choices
            cost = models.shared(("op", id(model)), lambda: models.op_cost_ns(model, model.choices))
        else:
            kept = allowed(model, model.choices)
            choices, cost = models.shared(
                ("pinned op", id(model), kept.tobytes()), lambda: self._pinned(model, kept)
            )
        node = self._node(op.name, cost)
        self.out.op_node[position] = node
        self.out.op_choices[position] = choices
        for k, port in enumerate(op.inputs):
            value = models.values.value_of[port.tensor]
            if value.is_free:
                continue
            needed = models.shared(
                ("needed", id(model), k, id(choices)),
                lambda k=k, value=value: self._one(value, model.required(choices, k)),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            self._connect(value, position, k, node, needed)

    def _pinned(self, model: OpModel, kept: NDArray[np.bool_]) -> tuple[IntArray, FloatArray]:
        choices = model.choices[kept]
        return choices, self.models.op_cost_ns(model, choices)

    def _connect(self, value: Value, position: int, k: int, node: int, needed: IntArray) -> None:
        models = self.models
        root = value.root
        saves = (position, k) in value.saving and not value.is_parameter
        if root in self.out.read_node:
            source, read = self.out.read_node[root], self.out.read_states[root]
            key = ("read op", id(models.ops.space(root)), id(read), id(needed), saves)
            cost = models.shared(key, lambda: self._read_to_op(root, read, needed, saves))
            self.edges.append(Edge(source, node, cost))
        elif value.is_parameter:
            model = models.parameter(value)
            cost = self._parameter_edge(model, needed)
            self.edges.append(Edge(self.out.parameter_node[root], node, cost))
        else:
            rest = self.out.rest_states[root]
            kept = (value.is_saved, value.saved_by_producer)
            shared_by = ("rest op", id(models.ops.space(root)), id(rest), id(needed), kept)
            cost, memory = models.shared(shared_by, lambda: self._rest_to_op(value, rest, needed))
            self.edges.append(Edge(self.out.rest_node[root], node, cost, memory))

    def _read_to_op(self, root: str, read: ReadStates, needed: IntArray, saves: bool) -> FloatArray:
        moves = self.models.redistributions(self.models.ops.space(root))
        rows, columns = moves.space.index(read.layouts), moves.space.index(needed)
        total = moves.total_ns(rows[:, None], columns[None, :])
        if saves:
            total = total + moves.forward_ns(rows[:, None], columns[None, :])
        return self._activation(total)

    def _rest_to_op(
        self, value: Value, rest: IntArray, needed: IntArray
    ) -> tuple[FloatArray, FloatArray | None]:
        moves = self.models.redistributions(self.models.ops.space(value.root))
        rows, columns = moves.space.index(rest), moves.space.index(needed)
        cost = self._activation(moves.total_ns(rows[:, None], columns[None, :]))
        if not value.is_saved:
            return cost, None
        saved = saved_as_read_bytes(moves, rest, needed, value.saved_by_producer)
        return cost, saved * self.models.problem.in_flight

    def _activation(self, total_ns: FloatArray) -> FloatArray:
        problem = self.models.problem
        return total_ns * (problem.microbatches * problem.calibration.exposed.activation)

    def _add_rest(self, value: Value, position: int, k: int) -> None:
        models = self.models
        if value.is_free:
            return
        model = models.ops.model(position)
        choices = self.out.op_choices[position]
        space = models.ops.space(value.root)
        states, select = models.shared(
            ("rest", id(model), k, id(choices)),
            lambda: self._rest_states(value, model.made(choices, k)),
        )
        kept = value.saved_by_producer
        cost, memory = models.shared(
            ("rest node", id(space), id(states), kept),
            lambda: (
                np.zeros(len(states)),
                space.local_bytes(states) * models.problem.in_flight if kept else None,
            ),
        )
        node = self._node(value.root, cost, memory)
        self.out.rest_node[value.root] = node
        self.out.rest_states[value.root] = states
        self.edges.append(Projection(self.out.op_node[position], node, select))
        if models.reads_shared(value):
            read = self._add_read(value)
            states_of = self.out.read_states[value.root]
            key = ("rest read", id(space), id(states), id(states_of), value.is_saved, kept)
            pair = models.shared(key, lambda: self._rest_to_read(value, states, states_of))
            self.edges.append(Edge(node, read, *pair))

    def _one(self, value: Value, states: IntArray) -> IntArray:
        """The one array of these states: what different ops need and make is often the same."""
        key = ("states", id(self.models.ops.space(value.root)), states.tobytes())
        return self.models.shared(key, lambda: states)

    def _rest_states(self, value: Value, made: IntArray) -> tuple[IntArray, IntArray]:
        states, select = _unique(self.models.ops.space(value.root), made)
        return self._one(value, states), select

    def _rest_to_read(
        self, value: Value, rest: IntArray, read: ReadStates
    ) -> tuple[FloatArray, FloatArray | None]:
        moves = self.models.redistributions(self.models.ops.space(value.root))
        once = read.layouts[~read.again]
        rows, columns = moves.space.index(rest)[:, None], moves.space.index(once)[None, :]
        forward = moves.forward_ns(rows, columns)
        total = forward + moves.backward_ns(rows, columns)
        if read.again.any():  # the same layouts once more
            total = np.concatenate([total, total + forward], axis=1)
        cost = self._activation(total)
        if not value.is_saved:
            return cost, None
        saved = saved_bytes(moves, rest, read, value.saved_by_producer)
        return cost, saved * self.models.problem.in_flight

    def _add_read(self, value: Value) -> int:
        models = self.models
        readers = tuple((models.ops.model(position), k) for position, k in value.readers)
        choices_again = value.is_saved and not value.is_parameter
        space = models.ops.space(value.root)
        states = models.shared(
            ("read", id(space), *((id(model), k) for model, k in readers), choices_again),
            lambda: self._read_states(value, readers, choices_again),
        )
        cost = models.shared(("read node", id(states)), lambda: np.zeros(len(states.layouts)))
        node = self._node(f"{value.root} (as read)", cost)
        self.out.read_node[value.root] = node
        self.out.read_states[value.root] = states
        return node

    def _read_states(
        self, value: Value, readers: tuple[tuple[OpModel, int], ...], choices_again: bool
    ) -> ReadStates:
        """What any reader may need, once saved as read and, where it is saved, once gathered again.

        One object wherever it is the same.
        """
        space = self.models.ops.space(value.root)
        needed = [model.required(model.choices, k) for model, k in readers]
        layouts, _ = _unique(space, np.concatenate(needed))
        key = ("read states", id(space), layouts.tobytes(), choices_again)
        return self.models.shared(key, lambda: once_and_again(layouts, choices_again))


def _unique(space: StateSpace, states: IntArray) -> tuple[IntArray, IntArray]:
    _, first, select = np.unique(space.key(states), return_index=True, return_inverse=True)
    return states[first], select.reshape(-1).astype(np.int64)
