"""Gradients of values: the ops and halves that produce them, and gradients that a sum forwards.

The gradient of the result of a sum is also the gradient of each summand, as one tensor. It lives
until the last summand no longer needs it, and is counted with that summand.
"""

from __future__ import annotations

from collections.abc import Iterable

from meshwright_solver.evaluation.memory.event_order import EventOrder, OpEvent
from meshwright_solver.evaluation.memory.kernel_workspace import PASSES_ON
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models


class Gradients:
    """Gradients of an assignment. ops: all of its ops."""

    def __init__(self, models: Models, order: EventOrder, ops: Iterable[int]) -> None:
        self._models = models
        self._order = order
        self._adders = {p for p in ops if models.problem.ops[p].op.kind == PASSES_ON}
        self._longest_of: dict[int, ProblemValue] = {}

    def is_counted_with(self, value: ProblemValue) -> bool:
        """Whether the gradient of a sum is counted with this value, one of its summands."""
        if self._adders.isdisjoint([position for position, _ in value.readers]):
            return False
        readers = self.with_gradient(value)
        if not readers or not self.is_passed_on(readers[0], value):
            return False
        return self.longest(readers[0][0]) is value

    def longest(self, adder: int) -> ProblemValue:
        """Summand that needs the gradient of a sum longest; the first of equal ones."""
        summand = self._longest_of.get(adder)
        if summand is None:
            of = self._models.values.value_of
            summands = [of[port.tensor] for port in self._models.problem.ops[adder].inputs]
            summand = max(summands, key=lambda value: self._passed_until(value, adder))
            self._longest_of[adder] = summand
        return summand

    def is_passed_on(self, reader: Reader, value: ProblemValue) -> bool:
        """Whether a reader forwards the gradient of its result unchanged."""
        op = self._models.problem.ops[reader[0]]
        tensors = self._models.problem.tensors
        return op.op.kind == PASSES_ON and (
            tensors[op.outputs[0].tensor].bytes == tensors[value.root].bytes
        )

    def with_gradient(self, value: ProblemValue) -> list[Reader]:
        """Readers that produce a gradient of a value, in backward order."""
        readers = []
        for position, port in value.readers:
            model = self._models.ops.model(position)
            if model.runs_backward and model.inputs[port].has_gradient:
                readers.append((position, port))
        return sorted(readers, reverse=True)

    def _passed_until(self, value: ProblemValue, adder: int) -> int:
        """Last place at which a summand uses the gradient of the sum; -1 if it has a gradient of
        its own."""
        readers = self.with_gradient(value)
        has = not value.is_parameter and value.producer is not None
        if not has or not readers or readers[0][0] != adder:
            return -1
        if not self.is_passed_on(readers[0], value):
            return -1
        if len(readers) > 1:
            return self._order.place(*(self.first_half(readers[1][0]), readers[1][0]))
        assert value.producer is not None
        producer = value.producer[0]
        return self._order.place(*(self.last_half(producer), producer))

    def first_half(self, position: int) -> OpEvent:
        """Half of the backward pass of an op that produces gradients of values."""
        is_weights = self._models.ops.model(position).weights_share == 1
        return OpEvent.WEIGHTS if is_weights else OpEvent.INPUTS

    def last_half(self, position: int, *, of_inputs: bool = False) -> OpEvent:
        """Last half of the backward pass of an op; of_inputs: the last that produces gradients of
        values."""
        share = self._models.ops.model(position).weights_share
        has_weights = share == 1 if of_inputs else share > 0
        return OpEvent.WEIGHTS if has_weights else OpEvent.INPUTS
