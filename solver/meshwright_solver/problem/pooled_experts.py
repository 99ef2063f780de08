"""Experts of short steps: the sequences of a batch share the expert slots.

    tokens [b, s, h], choices [b, s, k]  ->  slots [e, b, c(s), h]      as captured
    tokens [s, b, h], choices [s, b, k]  ->  slots [e, s, c(b), h]      pooled

A graph has c(s) slots of an expert for each sequence, such as `seq//4`. In a decode step s is 1, so
that no whole number of slots suits one sequence. The pooled mixture exchanges the dims of batch and
sequence by transposes, which move no data for s = 1, and has c(b) = b*k/e slots, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from meshwright.schema import Graph, GraphError, Op, Setup, Tensor
from meshwright.schema.setup import microbatch_symbols
from meshwright.schema.sizes import Size, evaluate, rounded_up, symbols_in
from meshwright_solver.problem.expert_dims import COMBINE, DISPATCH

MOST_SLACK = 2  # slots over choices; chosen: aligned slots of usual sequences stay below
_POOLED = " (pooled)"


def with_pooled_experts(graph: Graph, setup: Setup) -> Graph:
    """The graph with pooled mixtures where the captured slots do not suit the step.

    They do not if they are no whole number, or more than `MOST_SLACK` times the choices and pooled
    slots are fewer. Other graphs are returned as they are; the function is idempotent.
    """
    symbols = microbatch_symbols(graph, setup, setup.microbatches or 1)
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    dispatches = [op for op in graph.ops if op.kind == DISPATCH]
    if all(_is_fitting(op, tensors, symbols) for op in dispatches):
        return graph
    return _Pool(graph, tensors, symbols).run()


@dataclass(frozen=True, slots=True)
class _MixtureSizes:
    """The sizes that a mixture exchanges: batch, sequence, slots, and the slots when pooled."""

    batch: Size
    sequence: Size
    slots: Size
    pooled: Size

    def exchanged(self, tensor: Tensor) -> tuple[Size, ...] | None:
        """The shape of a tensor when pooled, or None if another size depends on the sequence."""
        sizes = {self.batch: self.sequence, self.slots: self.pooled}
        shape = tuple([sizes.get(size, size) for size in tensor.shape])
        moving = symbols_in(self.batch) | symbols_in(self.sequence)
        kept = [old for old, new in zip(tensor.shape, shape, strict=True) if old == new]
        return None if any(symbols_in(size) & moving for size in kept) else shape


class _Pool:
    """The rewriting of one graph."""

    def __init__(
        self, graph: Graph, tensors: Mapping[str, Tensor], symbols: Mapping[str, int]
    ) -> None:
        self._graph = graph
        self._symbols = symbols
        self._tensors = dict(tensors)
        self._ops: list[Op] = []
        self._sizes: dict[str, _MixtureSizes] = {}  # of tensors between a dispatch and its combine
        self._transposed: dict[str, str] = {}

    def run(self) -> Graph:
        for op in self._graph.topological_order():
            self._pool(op)
        return self._graph.model_copy(
            update={"tensors": tuple(self._tensors.values()), "ops": tuple(self._ops)}
        )

    def _pool(self, op: Op) -> None:
        sizes = next((self._sizes[name] for name in op.inputs if name in self._sizes), None)
        if op.kind == DISPATCH:
            sizes = self._sizes_of(op)
        if sizes is None:
            self._ops.append(op)
        elif op.kind == COMBINE:
            self._pool_combine(op)
        else:
            for name in op.outputs:
                self._exchange(name, sizes)
            inputs = [self._tokens(name, op) if op.kind == DISPATCH else name for name in op.inputs]
            self._ops.append(op.model_copy(update={"inputs": tuple(inputs)}))

    def _sizes_of(self, op: Op) -> _MixtureSizes | None:
        """The sizes that a dispatch exchanges; None if its captured slots suit the step."""
        if _is_fitting(op, self._tensors, self._symbols):
            return None
        batch, sequence, _ = self._tensors[op.inputs[0]].shape
        slots = self._tensors[op.outputs[0]].shape[2]
        return _MixtureSizes(batch, sequence, slots, _pooled_slots(op, self._tensors))

    def _exchange(self, name: str, sizes: _MixtureSizes) -> None:
        tensor = self._tensors[name]
        shape = sizes.exchanged(tensor)
        if shape is None:
            raise GraphError(
                f"tensor {name!r}: its shape {list(tensor.shape)} does not allow a step with "
                f"{sizes.sequence} = {evaluate(sizes.sequence, self._symbols)}, whose sequences "
                f"are too short for {sizes.slots} slots of an expert. Use a longer sequence"
            )
        self._tensors[name] = tensor.model_copy(update={"shape": shape})
        self._sizes[name] = sizes

    def _pool_combine(self, op: Op) -> None:
        buffers, *others = op.inputs
        (output,) = op.outputs
        pooled = f"{output}{_POOLED}"
        self._add_transposed(output, pooled)
        inputs = (buffers, *(self._tokens(name, op) for name in others))
        self._ops.append(op.model_copy(update={"inputs": inputs, "outputs": (pooled,)}))
        self._transpose(pooled, output, op.module)

    def _tokens(self, name: str, op: Op) -> str:
        """Tokens [b, s, x] as [s, b, x], for an op that reads them."""
        if name not in self._transposed:
            self._transposed[name] = f"{name}{_POOLED}"
            self._add_transposed(name, self._transposed[name])
            self._transpose(name, self._transposed[name], op.module)
        return self._transposed[name]

    def _add_transposed(self, name: str, result: str) -> None:
        tensor = self._tensors[name]
        first, second, *rest = tensor.shape
        changes = {"name": result, "shape": (second, first, *rest), "role": "activation"}
        self._tensors[result] = tensor.model_copy(update=changes)

    def _transpose(self, name: str, result: str, module: str) -> None:
        dims = [1, 0, *range(2, len(self._tensors[name].shape))]
        self._ops.append(
            Op(
                name=f"{result} (transpose)",
                kind="transpose",
                inputs=(name,),
                outputs=(result,),
                attrs={"dims": dims},
                module=module,
            )
        )


def _is_fitting(op: Op, tensors: Mapping[str, Tensor], symbols: Mapping[str, int]) -> bool:
    """Whether the captured slots of a dispatch are a whole number that suits the tokens."""
    batch, sequence, choices = tensors[op.inputs[1]].shape
    experts, _, slots, _ = tensors[op.outputs[0]].shape
    try:
        captured = evaluate(slots, symbols) * evaluate(batch, symbols)
    except GraphError:
        return False
    pairs = evaluate(batch, symbols) * evaluate(sequence, symbols) * evaluate(choices, symbols)
    pooled = evaluate(_pooled_slots(op, tensors), symbols) * evaluate(sequence, symbols)
    slack = captured * evaluate(experts, symbols) / (_capacity(op) * pairs)
    return slack <= MOST_SLACK or pooled >= captured


def _pooled_slots(op: Op, tensors: Mapping[str, Tensor]) -> Size:
    """The slots of an expert for one token of every sequence, rounded up."""
    batch, _, choices = tensors[op.inputs[1]].shape
    experts = tensors[op.outputs[0]].shape[0]
    share = _capacity(op) * Fraction(int(choices), int(experts))
    pairs = f"{share.numerator}*({batch})"
    return pairs if share.denominator == 1 else rounded_up(pairs, share.denominator)


def _capacity(op: Op) -> Fraction:
    return Fraction(op.attrs.get("capacity_factor", 1.0)).limit_denominator(1000)
