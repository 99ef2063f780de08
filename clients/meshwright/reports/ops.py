"""Ops of a plan: strategy, layouts of inputs and outputs, and cost.

Every cost of a stage belongs to one op, so that the sum over the ops is the stage's cost. A
redistribution for all readers of a tensor belongs to the producer. Costs of parameters and of
tensors without a producer belong to the first reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.schema import Graph, Layout, OpPlan, ParameterPlan, Plan, Redistribution, Stage


@dataclass(frozen=True, slots=True)
class Lying:
    """A tensor at an input or output of an op, with the layout of its root.

    root: the base tensor of a view. layout: None where any device can compute or load any part.
    """

    tensor: str
    root: str | None
    layout: Layout | None

    @property
    def axes(self) -> tuple[tuple[str, ...], ...] | None:
        """The mesh axes that shard every dim of the root."""
        return None if self.layout is None else tuple(dim.axes for dim in self.layout.dims)


@dataclass(frozen=True, slots=True)
class OpShare:
    """An op of a stage with its share of the stage's cost.

    module: the op's module; for a receive op, the module of the first reader.
    communication_ns: time of the op's own collectives and of its redistributions.
    saved_bytes: activations saved for one microbatch's backward pass.
    parameter_bytes: values, gradients and optimizer states.
    """

    stage: int
    own: OpPlan
    module: str
    inputs: tuple[Lying, ...]
    outputs: tuple[Lying, ...]
    moves: tuple[Redistribution, ...]
    parameters: tuple[ParameterPlan, ...]
    saved_bytes: int

    @property
    def communication_ns(self) -> float:
        return self.own.communication_ns + sum(move.ns for move in self.moves)

    @property
    def parameter_bytes(self) -> int:
        return sum(
            parameter.value_bytes + parameter.gradient_bytes + parameter.optimizer_bytes
            for parameter in self.parameters
        )


def shares_of(plan: Plan, graph: Graph) -> Iterator[OpShare]:
    """Every op of the plan, stage by stage, in the plan's order."""
    modules = {op.name: op.module for op in graph.ops}
    inputs = {op.name: op.inputs for op in graph.ops}
    outputs = {op.name: op.outputs for op in graph.ops}
    roots = roots_of(graph, {op.op for stage in plan.stages for op in stage.ops})
    for number, stage in enumerate(plan.stages):
        yield from _OpTable(number, stage, roots, modules, inputs, outputs).shares()


class _OpTable:
    def __init__(
        self,
        number: int,
        stage: Stage,
        roots: dict[str, str],
        modules: dict[str, str],
        inputs: dict[str, tuple[str, ...]],
        outputs: dict[str, tuple[str, ...]],
    ) -> None:
        self.number, self.stage = number, stage
        self.modules, self.inputs, self.outputs = modules, inputs, outputs
        self.root = roots
        owner: dict[str, str] = {}  # tensor -> the op that owns its cost
        for op in stage.ops:
            for name in inputs.get(op.op, ()):
                owner.setdefault(self.root.get(name, name), op.op)
        for op in stage.ops:
            for name in outputs.get(op.op, ()):
                owner[name] = op.op
        self.owner = owner
        self.tensors = {tensor.tensor: tensor for tensor in stage.tensors}
        self.values = {parameter.tensor: parameter.value for parameter in stage.parameters}
        # op, input -> the layout after the steps of this reader
        self.ends = {
            (move.op, move.tensor, move.input): move.forward[-1].to
            for move in stage.redistributions
            if move.forward
        }

    def shares(self) -> Iterator[OpShare]:
        fallback = self.stage.ops[0].op if self.stage.ops else ""
        moves: dict[str, list[Redistribution]] = {}
        for move in self.stage.redistributions:
            op = move.op or self.owner.get(move.tensor, fallback)
            moves.setdefault(op, []).append(move)
        saved: dict[str, int] = {}
        for tensor in self.stage.tensors:
            op = self.owner.get(tensor.tensor, fallback)
            saved[op] = saved.get(op, 0) + tensor.saved_bytes
        parameters: dict[str, list[ParameterPlan]] = {}
        for parameter in self.stage.parameters:
            op = self.owner.get(parameter.tensor, fallback)
            parameters.setdefault(op, []).append(parameter)
        reads = {
            self.root.get(name, name): op.op
            for op in reversed(self.stage.ops)
            for name in self.inputs.get(op.op, ())
        }
        for planned in self.stage.ops:
            name = planned.op
            yield OpShare(
                stage=self.number,
                own=planned,
                module=self.modules.get(reads.get(received(planned) or "", name), ""),
                inputs=tuple(
                    self._read(name, k, tensor)
                    for k, tensor in enumerate(self.inputs.get(name, ()))
                ),
                outputs=tuple(
                    Lying(output, self.root.get(output, output), self._rest(output))
                    for output in self.outputs.get(name, ())
                ),
                moves=tuple(moves.get(name, ())),
                parameters=tuple(parameters.get(name, ())),
                saved_bytes=saved.get(name, 0),
            )

    def _rest(self, name: str) -> Layout | None:
        tensor = self.tensors.get(name)
        return self.values.get(name) if tensor is None else tensor.rest.value

    def _read(self, op: str, number: int, name: str) -> Lying:
        """An input in the layout after the reader's steps, else in the layout of all readers."""
        root = self.root.get(name, name)
        for key in ((op, root, number), (op, root, None), (None, root, None)):
            if key in self.ends:
                return Lying(name, root, self.ends[key])
        tensor = self.tensors.get(root)
        if tensor is not None and tensor.read is not None:
            return Lying(name, root, tensor.read.value)
        layout = self._rest(root)
        return Lying(name, None if layout is None else root, layout)


def received(op: OpPlan) -> str | None:
    """The tensor that a receive op receives from another stage; None for other ops."""
    return op.op.removeprefix("receive ") if op.kind == "receive" else None


def roots_of(graph: Graph, planned: set[str]) -> dict[str, str]:
    """The base tensor by view: the outputs of ops that the plan does not list."""
    roots: dict[str, str] = {}
    for op in graph.topological_order():
        if op.name not in planned and op.inputs:
            root = roots.get(op.inputs[0], op.inputs[0])
            roots.update(dict.fromkeys(op.outputs, root))
    return roots
