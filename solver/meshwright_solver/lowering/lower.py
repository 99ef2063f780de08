"""Lowering: the cost graph of a problem on one mesh.

    node         states                          cost                       memory
    op           its strategies                  compute, statistics, halo  -
    rest         layouts of a produced value     -                          saved by the producer
    read         layout x saved as read or       -                          -
                 gathered again
    parameter    ParameterModel.states           update, spread             value, gradient, state

    edge              cost                                         memory
    op -> rest        projection: the strategy determines the
                      layout
    rest -> read      redistribution, forward and backward; its    the saved copy
                      forward part again if the rest is saved
    read -> op        the same, forward part again if the op
                      needs this input in its backward pass, or
                      is recomputed
    rest -> op        (one reader) redistribution                  the saved copy
    parameter -> op   ParameterModel.read_ns

All costs are for one optimizer step; costs of activations count once per microbatch. A value has a
read node in four cases:
  - Several inputs share its read layout.
  - A pin states its layout after the reduction of partial sums.
  - It is saved and feeds a matrix product.
  - It is recomputed.

Any other value with one reader is saved in the layout that the reader needs. Transient memory is
excluded, because a cost graph represents sums only (`meshwright_solver.stage.memory_retries`).
Arrays are shared by content, so that repeated blocks consist of the same objects.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.redistribution import Counted
from meshwright_solver.layouts.stated_layout import StatedLayout
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.lowering.elementwise_following import with_followers
from meshwright_solver.lowering.node_content import (
    OpContent,
    ReadContent,
    RestContent,
    Table,
    TableSource,
)
from meshwright_solver.lowering.read_states import (
    ReadStates,
    read_states_of,
    saved_as_read_bytes,
    saved_bytes,
)
from meshwright_solver.problem.values import Again, BackwardNeed, ProblemValue
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
)
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter
from meshwright_solver.strategies.parameter_model import ParameterModel

__all__ = ["Lowered", "Models", "lower"]


@dataclass(slots=True)
class Lowered:
    """Cost graph and the meaning of its nodes, by position of op and by root of value."""

    graph: CostGraph
    models: Models
    op_node: dict[int, int]
    op_choices: dict[int, IntArray]
    rest_node: dict[str, int]
    rest_states: dict[str, IntArray]
    read_node: dict[str, int]
    read_states: dict[str, ReadStates]
    parameter_node: dict[str, int]


@uncollected
def lower(
    models: Models,
    pinned: Mapping[int, StrategyFilter],
    memory_limit_bytes: float | None,
) -> Lowered:
    """Cost graph of a problem on a mesh. pinned: position of op -> strategies that it may have.

    Raises OutOfTime at the deadline of the models.
    """
    lowered = _Lowering(models, pinned).run(memory_limit_bytes)
    return with_followers(lowered) if models.followers else lowered


class _Lowering:
    """Construction of the cost graph; nodes of equal content share their arrays."""

    def __init__(self, models: Models, pinned: Mapping[int, StrategyFilter]) -> None:
        self.models = models
        self.key_of = models.key_of
        self.pinned = pinned
        self.nodes: list[CostNode] = []
        self.edges: list[CostEdge | Projection] = []
        self.out = Lowered(CostGraph((), ()), models, {}, {}, {}, {}, {}, {}, {})
        problem = models.problem
        self.per_step = problem.microbatches * problem.exposed.activation
        self._limit_bytes = problem.moved_bytes
        self._ops: dict[Hashable, OpContent] = {}
        self._rests: dict[Hashable, RestContent] = {}
        self._sources: dict[str, tuple[int, TableSource]] = {}  # by root: what its readers read

    def run(self, memory_limit_bytes: float | None) -> Lowered:
        problem, values = self.models.problem, self.models.values
        for position, op in enumerate(problem.ops):
            if position in values.views:
                continue
            self.models.deadline.check()
            content = self._op(position)
            for k in content.parameters:
                value = values.value_of[op.inputs[k].tensor]
                if value.root not in self._sources:
                    self._add_parameter(value)
            node = self._add_op(position, content)
            for k, states, select in content.makes:
                value = values.value_of[op.outputs[k].tensor]
                self._add_rest(
                    value, content, (k, states), Projection(node, len(self.nodes), select)
                )
        self.out.graph = CostGraph(tuple(self.nodes), tuple(self.edges), memory_limit_bytes)
        return self.out

    def _node(self, name: str, cost: FloatArray, memory: FloatArray | None = None) -> int:
        self.nodes.append(CostNode(name, cost, memory))
        return len(self.nodes) - 1

    def _narrow(
        self, cost: FloatArray, space: StateSpace, states: IntArray, needed: IntArray
    ) -> FloatArray:
        """Costs with FORBIDDEN for redistributions to more bytes than the limit."""
        if math.isinf(self._limit_bytes):
            return cost
        large = space.local_bytes(needed) > self._limit_bytes
        moved = (states[:, None, :] != needed[None, :, :]).any(axis=2)
        return np.where(moved & large, FORBIDDEN, cost)

    # --- ops -------------------------------------------------------------------------------------

    def _add_op(self, position: int, content: OpContent) -> int:
        op, value_of = self.models.problem.ops[position], self.models.values.value_of
        node = self._node(op.name, content.cost)
        self.out.op_node[position] = node
        self.out.op_choices[position] = content.choices
        for k, needed, again in content.reads:
            value = value_of[op.inputs[k].tensor]
            tail, source = self._sources[value.root]
            table = source.table(needed, again)
            if k in content.parameters:
                model = self.models.parameter(value)
                if model.may_be_looked_up_on_host:
                    table = self._lookup_table(model, content, table)
                if model.rows is not None and model.rows.may_be_sparse:
                    table = self._sparse_table(model, content, needed, table)
            self.edges.append(CostEdge(tail, node, *table))
        return node

    def _op(self, position: int) -> OpContent:
        model, allowed = self.models.ops.model(position), self.pinned.get(position)
        mask = None if allowed is None else allowed(model, model.choices)
        key = (self.key_of(model), None if mask is None else mask.tobytes())
        content = self._ops.get(key)
        if content is None:
            content = self._ops[key] = self._op_of(model, mask)
        return content

    def _op_of(self, model: OpModel, mask: NDArray[np.bool_] | None) -> OpContent:
        models = self.models
        if mask is None:
            choices = model.choices
            cost = models.shared(
                ("op", self.key_of(model)), lambda: models.op_cost_ns(model, choices)
            )
        else:
            key = ("pinned op", self.key_of(model), mask.tobytes())
            choices, cost = models.shared(key, lambda: self._pinned_choices(model, mask))
        reads, makes = [], []
        for k, port in enumerate(model.inputs):
            if port.space is not None:
                needed = models.shared(
                    ("needed", self.key_of(model), k, self.key_of(choices)),
                    lambda k=k, space=port.space: self._shared_states(
                        space, model.required(choices, k)
                    ),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                )
                reads.append((k, needed, (port.saved or model.is_remade) and not port.is_parameter))
        for k, port in enumerate(model.outputs):
            if port.space is not None:
                states, select = models.shared(
                    ("rest", self.key_of(model), k, self.key_of(choices)),
                    lambda k=k, space=port.space: self._output_states(
                        space, model.made(choices, k)
                    ),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                )
                makes.append((k, states, select))
        parameters = tuple(k for k, port in enumerate(model.inputs) if port.is_parameter)
        return OpContent(model, choices, cost, parameters, tuple(reads), tuple(makes))

    def _pinned_choices(
        self, model: OpModel, mask: NDArray[np.bool_]
    ) -> tuple[IntArray, FloatArray]:
        choices = model.choices[mask]
        return choices, self.models.op_cost_ns(model, choices)

    def _shared_states(self, space: StateSpace, states: IntArray) -> IntArray:
        """Shared array of these states; different ops often need and produce the same ones."""
        return self.models.shared(("states", self.key_of(space), states.tobytes()), lambda: states)

    def _output_states(self, space: StateSpace, outputs: IntArray) -> tuple[IntArray, IntArray]:
        states, select = _unique(space, outputs)
        return self._shared_states(space, states), select

    # --- values at rest --------------------------------------------------------------------------

    def _add_parameter(self, value: ProblemValue) -> None:
        model = self.models.parameter(value)
        content = self._rests.get(self.key_of(model))
        if content is None:
            content = self._rests[self.key_of(model)] = self._parameter(model)
        self.out.parameter_node[value.root] = self._add(value, content)

    def _parameter(self, model: ParameterModel) -> RestContent:
        node = self.models.shared(
            ("parameter node", model),
            lambda: (
                model.rest_ns(model.states),
                np.asarray(sum(model.memory_bytes(model.states)), dtype=np.float64),
            ),
        )

        def table(needed: IntArray, _: bool) -> Table:
            gathers = 2 if model.trained else 1
            key = ("parameter edge", model, self.key_of(needed))
            return self.models.shared(
                key, lambda: (self._parameter_edge(model, needed, gathers), None)
            )

        return RestContent(model.space, model.states, node, TableSource(table))

    def _parameter_edge(self, model: ParameterModel, needed: IntArray, gathers: int) -> FloatArray:
        cost, limit_bytes = model.read_ns(model.states, needed, gathers), self._limit_bytes
        if math.isinf(limit_bytes):
            return cost
        return np.where(model.moves_over_limit(model.states, needed, limit_bytes), FORBIDDEN, cost)

    def _lookup_table(self, model: ParameterModel, reader: OpContent, table: Table) -> Table:
        """Edge table with the cost of a lookup on hosts."""
        cost, memory = table
        key = ("looked up", *self.key_of.each([cost, reader.model, reader.choices]))

        def build() -> Table:
            exposed = self.models.problem.exposed
            elements = reader.model.looked_up_bytes(reader.choices) / model.element_bytes.value
            return cost + model.lookup_times(model.states, elements).exposed(exposed), memory

        return self.models.shared(key, build)

    def _sparse_table(
        self, model: ParameterModel, reader: OpContent, needed: IntArray, table: Table
    ) -> Table:
        """Edge table with the cost and memory of sparse gradients."""
        cost, _ = table
        key = (
            "in rows", self.key_of(cost), self.key_of(reader.model), self.key_of(reader.choices)
        )  # fmt: skip

        def build() -> Table:
            elements = reader.model.looked_up_bytes(reader.choices) / model.element_bytes.value
            rows, is_sparse = model.row_gradients(needed, elements), model.is_sparse(model.states)
            moved_ns = rows.gather_ns * self.models.problem.exposed.gradient_once
            return (
                cost + np.where(is_sparse[:, None], moved_ns, 0.0)
                + model.row_update_ns(model.states, rows),
                np.where(is_sparse[:, None], rows.held_bytes, 0.0),
            )  # fmt: skip

        return self.models.shared(key, build)

    def _add_rest(
        self,
        value: ProblemValue,
        producer: OpContent,
        output: tuple[int, IntArray],
        projection: Projection,
    ) -> None:
        port, states = output
        backward_need = value.kept
        key = (self.key_of(producer), port, backward_need)
        content = self._rests.get(key)
        if content is None:
            space = producer.model.outputs[port].space
            assert space is not None
            counted = self.models.counted(value, self.models.problem.exposed)
            content = self._rests[key] = self._rest(space, states, backward_need, counted)
        self.edges.append(projection)
        self.out.rest_states[value.root] = states
        self.out.rest_node[value.root] = self._add(value, content)

    def _rest(
        self,
        space: StateSpace,
        states: IntArray,
        backward_need: BackwardNeed,
        counted: Counted,
    ) -> RestContent:
        models, problem = self.models, self.models.problem
        node = models.shared(
            ("rest node", self.key_of(space), self.key_of(states), backward_need.is_held),
            lambda: self._rest_node(space, states, backward_need),
        )

        def build(needed: IntArray) -> Table:
            moves = models.redistributions(space)
            rows, columns = space.index(states), space.index(needed)
            cost = moves.total_ns(rows[:, None], columns[None, :], counted) * self.per_step
            cost = self._narrow(cost, space, states, needed)
            if not backward_need.again:
                return cost, None
            copy = saved_as_read_bytes(moves, states, needed, backward_need.is_at_hand)
            return cost, copy * problem.in_flight

        def table(needed: IntArray, _: bool) -> Table:
            key = (
                "rest op", *self.key_of.each([space, states, needed]), backward_need, counted
            )  # fmt: skip
            return models.shared(key, lambda: build(needed))

        return RestContent(space, states, node, TableSource(table))

    def _rest_node(
        self, space: StateSpace, states: IntArray, backward_need: BackwardNeed
    ) -> tuple[FloatArray, FloatArray | None]:
        local = space.local_bytes(states)
        if backward_need.is_held:
            return np.zeros(len(states)), local * self.models.problem.in_flight
        return np.where(local > self._limit_bytes, FORBIDDEN, 0.0), None

    def _add(self, value: ProblemValue, content: RestContent) -> int:
        """Node of a value at rest, and a read node if readers share the read layout."""
        node = self._node(value.root, *content.node)
        if not self.models.reads_shared(value):
            self._sources[value.root] = (node, content.source)
            return node
        model = self.models.ops.model
        readers = [(model(position), k) for position, k in value.readers]
        again = self.models.gathered_again(value)
        stated = self.models.stated.get(value.root)
        key = (again, stated, *[(self.key_of(reader), k) for reader, k in readers])
        read = content.reads.get(key)
        if read is None:
            read = content.reads[key] = self._read(value, content, readers, again)
        head = self._node(f"{value.root} (as read)", read.cost)
        self.edges.append(CostEdge(node, head, *read.edge))
        self.out.read_node[value.root] = head
        self.out.read_states[value.root] = read.states
        self._sources[value.root] = (head, read.source)
        return node

    # --- values as they are read -----------------------------------------------------------------

    def _read(
        self,
        value: ProblemValue,
        content: RestContent,
        readers: Sequence[tuple[OpModel, int]],
        again: Again,
    ) -> ReadContent:
        models, space, rest = self.models, content.space, content.states
        counted = models.counted(value, models.problem.exposed)
        stated = models.stated.get(value.root)
        states = models.shared(
            (
                "read", self.key_of(space), *((self.key_of(model), k) for model, k in readers),
                again, self.key_of(rest) if stated else None, stated,
            ),
            lambda: self._read_states(space, readers, again, rest, stated),
        )  # fmt: skip
        cost = models.shared(
            ("read node", self.key_of(states)), lambda: np.zeros(len(states.layouts))
        )
        if value.is_parameter:
            edge = content.source.table(states.layouts, False)
        else:
            key = ("rest read", *self.key_of.each([space, rest, states]), value.kept, counted)
            edge = models.shared(
                key, lambda: self._rest_to_read(space, rest, states, value.kept, counted)
            )
            if stated is not None:
                edge = self._as_stated(edge, rest, states, stated)

        def build(needed: IntArray, moves_again: bool) -> Table:
            moves = models.redistributions(space)
            rows, columns = space.index(states.layouts)[:, None], space.index(needed)[None, :]
            total = moves.total_ns(rows, columns, counted)
            if moves_again:
                total = total + moves.forward_ns(rows, columns) * counted.forward
            return self._narrow(total * self.per_step, space, states.layouts, needed), None

        def table(needed: IntArray, moves_again: bool) -> Table:
            key = ("read op", *self.key_of.each([space, states, needed]), moves_again, counted)
            return models.shared(key, lambda: build(needed, moves_again))

        return ReadContent(states, cost, edge, TableSource(table))

    def _read_states(
        self,
        space: StateSpace,
        readers: Sequence[tuple[OpModel, int]],
        again: Again,
        rest: IntArray,
        stated: StatedLayout | None,
    ) -> ReadStates:
        """States that any reader may need or a pin states, saved as read or gathered again.

        Equal states are one object.
        """
        needed = [model.required(model.choices, k) for model, k in readers]
        if stated is not None:
            needed.append(space.states[stated.reductions(rest, space.states).any(axis=0)])
        layouts, _ = _unique(space, np.concatenate(needed))
        key = ("read states", self.key_of(space), layouts.tobytes(), again)
        return self.models.shared(key, lambda: read_states_of(layouts, again))

    def _as_stated(
        self, table: Table, rest: IntArray, read: ReadStates, stated: StatedLayout
    ) -> Table:
        """The table from a value at rest to its readers, without what a pin leaves out.

        Layouts at rest that the pin leaves out are open: explanations lift pins of strategies.
        """
        cost, memory = table
        key = ("as stated", *self.key_of.each([cost, rest, read]), stated)

        def build() -> FloatArray:
            may_read = stated.may_read(rest, read.layouts)
            is_open = np.asarray(~may_read.any(axis=1, keepdims=True))
            return np.where(may_read | is_open, cost, FORBIDDEN)

        return self.models.shared(key, build), memory

    def _rest_to_read(
        self,
        space: StateSpace,
        rest: IntArray,
        read: ReadStates,
        backward_need: BackwardNeed,
        counted: Counted,
    ) -> Table:
        moves, problem = self.models.redistributions(space), self.models.problem
        once = read.layouts if read.again.all() else read.layouts[~read.again]
        rows, columns = space.index(rest)[:, None], space.index(once)[None, :]
        forward = moves.forward_ns(rows, columns) * counted.forward
        total = moves.total_ns(rows, columns, counted)
        if read.again.all():
            total = total + forward
        elif read.again.any():  # the same layouts once more
            total = np.concatenate([total, total + forward], axis=1)
        cost = self._narrow(total * self.per_step, space, rest, read.layouts)
        if not backward_need.again:
            return cost, None
        return cost, saved_bytes(moves, rest, read, backward_need.is_at_hand) * problem.in_flight


def _unique(space: StateSpace, states: IntArray) -> tuple[IntArray, IntArray]:
    """States of a space that occur in `states`, in the order of the space, and their indices."""
    places = space.index(states)
    is_present = np.zeros(len(space.states), dtype=np.bool_)
    is_present[places] = True
    return space.states[is_present], (is_present.cumsum() - 1)[places]
