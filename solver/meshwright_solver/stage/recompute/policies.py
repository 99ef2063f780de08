"""Recompute policies: the ops of every block that may be recomputed, and those that are.

    selective   ops between two products of activations, the first of these included
    cheap       all but products with parameters, convolutions and fused attention
    full        all; in some stacks those too whose results nothing needs (`whole_blocks`)
    ops         all, at a price of memory (`meshwright_solver.stage.recompute.tradeoff`)
    stated      those of the request's globs (`meshwright_solver.stage.recompute.stated_ops`)

Of the former, `ops_again` chooses those that save most. Blocks are settled from the last to the
first: the recomputation of a later block decides which values an earlier one has to save.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshwright.schema import Recompute, RecomputePolicy
from meshwright.schema.stack import whole_blocks
from meshwright_costmodel.operators import op_ns
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import ProblemValue, Values
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.stage.recompute.blocks import BlockNames, blocks, is_weighted_product
from meshwright_solver.stage.recompute.min_cut import (
    BlockValue,
    ops_again,
    ops_at_price,
    saved_bytes,
)
from meshwright_solver.stage.recompute.stated_ops import stated

_ANY = Recompute()


def remade(
    problem: Problem,
    values: Values,
    policy: RecomputePolicy,
    count: int | None = None,
    names: BlockNames | None = None,
    *,
    wish: Recompute = _ANY,
) -> RecomputedOps:
    """The ops that a policy recomputes. count: only in the first `count` blocks.

    wish: the options of the request, for stated ops and the communication.

    problem: of the whole graph or of a pipeline stage, without recomputation. names: see `blocks`.
    """
    if policy == "none" or not problem.training:
        return NOTHING
    if policy == "stated":
        return stated(problem, values, wish.ops, names, wish.communication)
    chosen = Choice(problem, values, policy).of(blocks(problem, values, names)[:count])
    return replace(chosen, communication=wish.communication) if chosen else chosen


class Choice:
    """The ops that a policy recomputes in blocks.

    saved_bytes, ns: of all blocks together, after `of`: the saved bytes that could be recomputed,
    and the recomputation time, on one device.
    """

    def __init__(self, problem: Problem, values: Values, policy: RecomputePolicy) -> None:
        self.problem = problem
        self.values = values
        self.policy = policy
        self.again: set[int] = set()
        self.saved_bytes = 0
        self.ns = 0.0
        self.values_of_op: dict[int, list[int]] = {}  # op -> numbers of values it produces or reads
        for number, value in enumerate(values.values):
            if value.is_free or value.is_parameter:
                continue
            around = [position for position, _ in value.readers]
            if value.producer is not None:
                around.append(value.producer[0])
            for position in dict.fromkeys(around):
                self.values_of_op.setdefault(position, []).append(number)

    def of(self, chosen: Sequence[range], prices: Sequence[float] | None = None) -> RecomputedOps:
        """prices: ns per saved byte, by block; None: as few saved bytes as possible."""
        names = [op.name for op in self.problem.ops]
        segment_of: dict[str, int] = {}
        for number in range(len(chosen) - 1, -1, -1):
            ops = self._of_block(chosen[number], None if prices is None else prices[number])
            self.again |= ops
            if ops:
                segment_of.update(dict.fromkeys([names[p] for p in chosen[number]], number))
        if not self.again:
            return NOTHING
        return RecomputedOps(self.policy, frozenset([names[p] for p in self.again]), segment_of)

    def _of_block(self, block: range, price: float | None) -> set[int]:
        may = self._may(block)
        times = {position: self._ns(position) for position in may}
        numbers = dict.fromkeys(n for op in block for n in self.values_of_op.get(op, ()))
        block_values = [value for n in numbers if (value := self._value(n, block)) is not None]
        if price is None:
            ops = ops_again(block_values, times) if times else set()
        else:
            ops = ops_at_price(block_values, times, price) if times else set()
        if ops and self.policy == "full" and whole_blocks(self.problem.setup.stack):
            ops |= {position for position in may if not self._is_wanted(position, ops)}
        self.saved_bytes += saved_bytes(block_values, ops)
        self.ns += sum(times[op] for op in ops)
        return ops

    def _value(self, number: int, block: range) -> BlockValue | None:
        """None for a value that is saved whatever the block recomputes."""
        value = self.values.values[number]
        outside = [reader for reader in value.again if reader[0] not in block]
        outside += [r for r in value.readers if r[0] not in block and r[0] in self.again]
        if outside:
            return None
        producer = None if value.producer is None else value.producer[0]
        return BlockValue(
            self.problem.tensors[value.root].bytes,
            producer if producer in block else None,
            [position for position, _ in value.readers if position in block],
            value.saved_by_producer or bool(value.saving),
        )

    def _is_wanted(self, position: int, ops: set[int]) -> bool:
        """Whether gradients or recomputed ops, `ops` among them, read a result of an op."""
        return any(
            value.saved_by_producer
            or value.saving
            or any(reader in ops or reader in self.again for reader, _ in value.readers)
            for value in self._made(position)
        )

    def _may(self, block: range) -> list[int]:
        positions = [p for p in block if p not in self.values.views and self._moves(p)]
        positions = [p for p in positions if self.problem.ops[p].op.kind != RECEIVE]
        match self.policy:
            case "full" | "ops":
                return positions
            case "cheap":
                return [p for p in positions if not self._is_dear(p)]
            case "selective":
                return self._between_products(positions)
        raise ValueError(f"the recompute policy {self.policy!r} chooses no ops")

    def _moves(self, position: int) -> bool:
        """Whether an op produces a value that is not free."""
        op = self.problem.ops[position]
        return any(not self.values.value_of[port.tensor].is_free for port in op.outputs)

    def _is_dear(self, position: int) -> bool:
        known = self.problem.ops[position].known
        if known is None or known.op_class in ("attention", "convolution"):
            return True
        return is_weighted_product(self.problem, self.values, position)

    def _between_products(self, positions: Sequence[int]) -> list[int]:
        """Ops on a path from one product of activations to another, without the latter."""
        products = {p for p in positions if self._is_product(p)}
        on_way = [p for p in positions if p in products or not self._is_dear(p)]
        forth = set(products)
        for position in on_way:
            if any(maker in forth for maker in self._makers(position)):
                forth.add(position)
        back: set[int] = set()
        for position in reversed(on_way):
            readers = self._readers(position)
            if any(reader in products or reader in back for reader in readers):
                back.add(position)
        return [p for p in on_way if p in forth and p in back]

    def _is_product(self, position: int) -> bool:
        known = self.problem.ops[position].known
        return known is not None and known.op_class == "matmul" and not self._is_dear(position)

    def _makers(self, position: int) -> list[int]:
        producers = [
            self.values.values[number].producer for number in self.values_of_op.get(position, ())
        ]
        return [maker[0] for maker in producers if maker is not None and maker[0] != position]

    def _readers(self, position: int) -> list[int]:
        return [reader for value in self._made(position) for reader, _ in value.readers]

    def _made(self, position: int) -> Iterator[ProblemValue]:
        """The values that an op produces."""
        for number in self.values_of_op.get(position, ()):
            value = self.values.values[number]
            if value.producer is not None and value.producer[0] == position:
                yield value

    def _ns(self, position: int) -> float:
        """The time to recompute an op on one device: it decides between ops that save as much."""
        op, tensors = self.problem.ops[position], self.problem.tensors
        if op.known is None:
            return 0.0
        return op_ns(
            op.known.op_class,
            op.flops,
            bytes_moved=sum(tensors[port.tensor].bytes for port in (*op.inputs, *op.outputs)),
            dtype=tensors[op.outputs[0].tensor].tensor.dtype,
            device=self.problem.topology.device,
            calibration=self.problem.calibration,
        )
