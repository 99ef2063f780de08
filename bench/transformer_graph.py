"""A made-up cost graph of the size and shape of a transformer planned over three mesh axes.

A state is one small choice an axis: 5 or 6 for a tensor (125 or 216 states), 7 for an op (343).
Matrices are sums over the axes plus noise; memory is a size divided by the degrees of the axes that
shard. Every block holds the same array objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode, Projection

_AXES = 3
_DEGREES = (8.0, 4.0, 2.0)
_Array = TypeVar("_Array", FloatArray, IntArray)


class _Blocks:
    """Arrays by name, the same name the same object; nodes and edges as they come."""

    def __init__(self, seed: int, choices: dict[str, int]) -> None:
        self.nodes: list[CostNode] = []
        self.edges: list[CostEdge | Projection] = []
        self._seed = seed
        self._choices = choices
        self._width: list[int] = []
        self._floats: dict[str, FloatArray] = {}
        self._selects: dict[str, IntArray] = {}

    def tensor(self, name: str, bytes_unsharded: float) -> int:
        return self._node(name, self._choices["tensor"], 1e3, bytes_unsharded)

    def parameter(self, name: str, bytes_unsharded: float) -> int:
        return self._node(name, self._choices["op"], 1e5, bytes_unsharded)

    def op(self, name: str, inputs: list[int], cost_ns: float) -> int:
        """The op after its inputs, and its output tensor's node is to be projected to."""
        node = self._node(name, self._choices["op"], cost_ns, None)
        for place, tensor in enumerate(inputs):
            self.relayout(tensor, node, f"{name}.{place}")
        return node

    def output(self, op: int, name: str, bytes_unsharded: float) -> int:
        tensor = self.tensor(name, bytes_unsharded)
        wide, narrow = self._width[op], self._width[tensor]

        def select(random: np.random.Generator) -> IntArray:
            per_axis = [random.integers(0, narrow, wide) for _ in range(_AXES)]
            digits = np.unravel_index(np.arange(wide**_AXES), (wide,) * _AXES)
            picked = tuple(axis[digit] for axis, digit in zip(per_axis, digits, strict=True))
            return np.ravel_multi_index(picked, (narrow,) * _AXES).astype(np.int64)

        if name not in self._selects:
            self._selects[name] = select(self._random(name))
        self.edges.append(Projection(op, tensor, self._selects[name]))
        return tensor

    def relayout(self, tail: int, head: int, name: str) -> None:
        def matrix(random: np.random.Generator) -> FloatArray:
            total = np.zeros((1, 1))
            for _ in range(_AXES):
                axis = random.random((self._width[tail], self._width[head])) * 4e5
                axis[random.random(axis.shape) < 0.3] = 0.0
                total = total[:, None, :, None] + axis[None, :, None, :]
                total = total.reshape(total.shape[0] * total.shape[1], -1)
            return np.round(total * (1 + 0.1 * random.random(total.shape)))

        self.edges.append(CostEdge(tail, head, self._float(name, matrix)))

    def _node(self, name: str, width: int, cost_ns: float, bytes_unsharded: float | None) -> int:
        def cost(random: np.random.Generator) -> FloatArray:
            return np.asarray(np.round(cost_ns * random.random(width**_AXES)))

        def memory(random: np.random.Generator) -> FloatArray:
            share = np.ones(1)
            for degree in _DEGREES:
                axis = np.where(random.random(width) < 0.5, 1.0, 1.0 / degree)
                share = (share[:, None] * axis).ravel()
            return np.asarray(np.round(share * (bytes_unsharded or 0.0)))

        held = None if bytes_unsharded is None else self._float(f"{name}.memory", memory)
        self.nodes.append(CostNode(name, self._float(f"{name}.cost", cost), held))
        self._width.append(width)
        return len(self.nodes) - 1

    def _float(self, name: str, make: Callable[[np.random.Generator], FloatArray]) -> FloatArray:
        if name not in self._floats:
            self._floats[name] = make(self._random(name))
        return self._floats[name]

    def _random(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, *name.encode()])


def transformer_graph(
    layers: int,
    *,
    tensor_choices: int = 6,
    op_choices: int = 7,
    memory_limit_bytes: float | None = None,
    seed: int = 0,
) -> CostGraph:
    """About 45 nodes a layer; choices are for an axis, states their third power."""
    blocks = _Blocks(seed, {"tensor": tensor_choices, "op": op_choices})

    def apply(name: str, inputs: list[int], size: float = 1e8, weight: float = 0.0) -> int:
        if weight:
            inputs = [*inputs, blocks.parameter(f"{name}.weight", weight)]
        return blocks.output(blocks.op(name, inputs, 1e6), f"{name}.out", size)

    def read(tensor: int, name: str) -> int:
        copy = blocks.tensor(f"{name}.read", 1e8)
        blocks.relayout(tensor, copy, f"{name}.read")
        return copy

    stream = apply("embed", [blocks.tensor("ids", 1e6)], weight=4e9)
    for _ in range(layers):
        normed = read(apply("norm1", [stream], weight=1e6), "norm1")
        query, key, value = (apply(name, [normed], weight=1e9) for name in ("q", "k", "v"))
        query, key = apply("rotate_q", [query]), apply("rotate_k", [key])
        attended = apply("attention", [query, key, value])
        middle = apply("add1", [stream, apply("o", [attended], weight=1e9)])
        normed = read(apply("norm2", [middle], weight=1e6), "norm2")
        gate, up = (apply(name, [normed], 4e8, 4e9) for name in ("gate", "up"))
        product = apply("multiply", [apply("silu", [gate], 4e8), up], 4e8)
        stream = apply("add2", [middle, apply("down", [product], weight=4e9)])
    logits = apply("head", [apply("norm", [stream], weight=1e6)], 8e9, 4e9)
    apply("loss", [logits], 1e3)
    return CostGraph(tuple(blocks.nodes), tuple(blocks.edges), memory_limit_bytes)
