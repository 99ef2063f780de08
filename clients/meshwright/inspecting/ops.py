"""What a plan says of every op: strategy, layouts of what it reads and makes, and what it costs.

Every cost of a stage is some op's: what all readers of a tensor share is of the op that makes it,
what no op makes, and parameters, of the first op that reads it. So the ops of a stage add up to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.schema import Graph, Layout, OpPlan, ParameterPlan, Plan, Redistribution, Stage


@dataclass(frozen=True, slots=True)
class Lying:
    """A tensor as an op reads or makes it. root: the tensor that it is a view of, whose layout this
    is; None where nothing is said of it: any device can make or load any part."""

    tensor: str
    root: str | None
    layout: Layout | None

    @property
    def axes(self) -> tuple[tuple[str, ...], ...] | None:
        """The mesh axes that shard every dim of the root."""
        return None if self.layout is None else tuple(dim.axes for dim in self.layout.dims)


@dataclass(frozen=True, slots=True)
class OpShare:
    """An op of a stage. module: of the graph; of what it receives, that of who reads it first.

    communication_ns: what it moves by itself, and the redistributions that are its. saved_bytes: of
    what it makes, kept for one microbatch's backward pass. parameter_bytes: of values, gradients
    and optimizer states.
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
            own.value_bytes + own.gradient_bytes + own.optimizer_bytes for own in self.parameters
        )


def shares_of(plan: Plan, graph: Graph) -> Iterator[OpShare]:
    """Every op of the plan, stage by stage, in the plan's order."""
    modules = {op.name: op.module for op in graph.ops}
    inputs = {op.name: op.inputs for op in graph.ops}
    outputs = {op.name: op.outputs for op in graph.ops}
    roots = roots_of(graph, {op.op for stage in plan.stages for op in stage.ops})
    for number, stage in enumerate(plan.stages):
        yield from _Stage(number, stage, roots, modules, inputs, outputs).shares()


class _Stage:
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
        owner: dict[str, str] = {}  # tensor -> the op whose it is
        for op in stage.ops:
            for name in inputs.get(op.op, ()):
                owner.setdefault(self.root.get(name, name), op.op)
        for op in stage.ops:
            for name in outputs.get(op.op, ()):
                owner[name] = op.op
        self.owner = owner
        self.tensors = {tensor.tensor: tensor for tensor in stage.tensors}
        self.values = {own.tensor: own.value for own in stage.parameters}
        # op, input -> the layout that its own steps end in
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
        for own in self.stage.ops:
            name = own.op
            yield OpShare(
                stage=self.number,
                own=own,
                module=self.modules.get(reads.get(received(own) or "", name), ""),
                inputs=tuple(
                    self._read(name, k, given) for k, given in enumerate(self.inputs.get(name, ()))
                ),
                outputs=tuple(
                    Lying(made, self.root.get(made, made), self._rest(made))
                    for made in self.outputs.get(name, ())
                ),
                moves=tuple(moves.get(name, ())),
                parameters=tuple(parameters.get(name, ())),
                saved_bytes=saved.get(name, 0),
            )

    def _rest(self, name: str) -> Layout | None:
        tensor = self.tensors.get(name)
        return self.values.get(name) if tensor is None else tensor.rest.value

    def _read(self, op: str, number: int, given: str) -> Lying:
        """As an op reads it: as its own steps leave it, else as all readers share it."""
        root = self.root.get(given, given)
        for key in ((op, root, number), (op, root, None), (None, root, None)):
            if key in self.ends:
                return Lying(given, root, self.ends[key])
        tensor = self.tensors.get(root)
        if tensor is not None and tensor.read is not None:
            return Lying(given, root, tensor.read.value)
        layout = self._rest(root)
        return Lying(given, None if layout is None else root, layout)


def received(op: OpPlan) -> str | None:
    """The tensor of another stage that an op receives; None of all other ops."""
    return op.op.removeprefix("receive ") if op.kind == "receive" else None


def roots_of(graph: Graph, planned: set[str]) -> dict[str, str]:
    """Tensor -> the tensor that it is a view of: what ops make that no plan needs to name."""
    found: dict[str, str] = {}
    for op in graph.topological_order():
        if op.name not in planned and op.inputs:
            root = found.get(op.inputs[0], op.inputs[0])
            found.update(dict.fromkeys(op.outputs, root))
    return found
