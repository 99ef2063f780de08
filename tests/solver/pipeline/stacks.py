"""A generator of stacks of transformer layers, for the tests of layers."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Graph
from tests.solver.small_graphs import GraphMaker

_TOKENS = 8


class Stack:
    """Embedding, layers and classifier; every layer begins with the op `NUMBER.norm`.

    norm_ops: ops of a norm.
    """

    def __init__(self, *, width: int = 32, norm_ops: int = 1) -> None:
        self._maker = GraphMaker(batch=4)
        self._width, self._norm_ops, self._count = width, norm_ops, 0
        self._ids = self._maker.input("ids", "batch", _TOKENS, dtype="int64")
        words = self._maker.parameter("words", 64, width)
        self._stream = self._maker.op("embedding", [words, self._ids], self._shape, "embed")

    @property
    def _shape(self) -> list[int | str]:
        return ["batch", _TOKENS, self._width]

    def decoder(self, kinds: Sequence[str], encoded: str | None = None) -> str:
        """Add layers of these kinds; the result of the last one.

        kinds: dense, window (another attention), biased (one with a bias), experts (another
        feed-forward part), parallel (both parts of one norm), cross (reads `encoded` too).
        encoded: replaces the stream by a second embedding.
        """
        if encoded is not None:
            words = self._maker.parameter("more words", 64, self._width)
            self._stream = self._maker.op("embedding", [words, self._ids], self._shape, "embed.2")
        for kind in kinds:
            self._layer(f"{self._count}", kind, encoded)
            self._count += 1
        return self._stream

    def graph(self) -> Graph:
        """The graph with a classifier behind the last layer."""
        head = self._maker.parameter("head", 96, self._width)
        logits = self._maker.op(
            "linear", [self._norm("last"), head], ["batch", _TOKENS, 96], "logits"
        )
        flat = self._maker.op("reshape", [logits], [f"{_TOKENS}*batch", 96], "flat")
        label = self._maker.tensor("label", [f"{_TOKENS}*batch"], "label", dtype="int64")
        self._maker.op("cross_entropy", [flat, label], [], "loss")
        return self._maker.graph("loss:out", loss="loss:out")

    def _layer(self, name: str, kind: str, encoded: str | None) -> None:
        normed = self._norm(f"{name}.norm")
        mixed = self._attention(name, kind, normed, normed)
        if kind == "parallel":
            both = self._maker.op(
                "add", [mixed, self._feed_forward(name, kind, normed)], self._shape, f"{name}.both"
            )
            self._add(f"{name}.add", both)
            return
        self._add(f"{name}.add", mixed)
        if kind == "cross" and encoded is not None:
            read = self._norm(f"{name}.norm.cross")
            self._add(f"{name}.add.cross", self._attention(f"{name}.cross", kind, read, encoded))
        normed = self._norm(f"{name}.norm.2")
        self._add(f"{name}.add.2", self._feed_forward(name, kind, normed))

    def _norm(self, name: str) -> str:
        normed = self._stream
        for number in range(self._norm_ops):
            normed = self._maker.op(
                "gelu", [normed], self._shape, name if number == 0 else f"{name} {number}"
            )
        return normed

    def _add(self, name: str, result: str) -> None:
        self._stream = self._maker.op("add", [self._stream, result], self._shape, name)

    def _product(self, name: str, x: str, wide: int, narrow: int) -> str:
        weight = self._maker.parameter(f"{name}.weight", wide, narrow)
        return self._maker.op("linear", [x, weight], ["batch", _TOKENS, wide], name)

    def _attention(self, name: str, kind: str, x: str, read: str) -> str:
        width = self._width
        query = self._product(f"{name}.query", x, width, width)
        key = self._product(f"{name}.key", read, width, width)
        if kind == "biased":
            bias = self._maker.parameter(f"{name}.bias", _TOKENS, width)
            key = self._maker.op("add", [key, bias], self._shape, f"{name}.biased")
        if kind == "window":
            key = self._maker.op("relu", [key], self._shape, f"{name}.window")
        scores = self._maker.op("mul", [query, key], self._shape, f"{name}.scores")
        return self._product(f"{name}.out", scores, width, width)

    def _feed_forward(self, name: str, kind: str, x: str) -> str:
        inner = (7 if kind == "experts" else 4) * self._width
        up = self._product(f"{name}.up", x, inner, self._width)
        up = self._maker.op("gelu", [up], ["batch", _TOKENS, inner], f"{name}.act")
        return self._product(f"{name}.down", up, self._width, inner)
