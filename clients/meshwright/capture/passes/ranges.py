"""Folding of concats, splits and slices, and of the tensors that a program writes part by part.

A program that writes into an empty tensor leaves a chain of concats of slices of earlier states.
Along one dim, each state is a list of ranges of values without such a chain. The pass follows every
slice and split of a concat to those ranges, and joins adjacent ranges of one value:

    concat(slice(concat(a, b), 0, |a|), c)       -> concat(a, c)
    split(concat(a, b), |a|, |b|)                -> a, b
    concat(slice(x, 0, 3), slice(x, 3, 5))       -> slice(x, 0, 5)
    slice(full(n))                               -> full(n)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from meshwright.capture.program import Node, Program, Value


@dataclass(frozen=True, slots=True)
class Range:
    """The elements from `start` to `end` of a value along one dim."""

    source: Value
    start: int
    end: int


def fold_ranges(program: Program) -> None:
    """Let readers of slices, splits and concats read the values that these consist of."""
    folding = _Folding(program)
    for node in program.nodes:
        folding.visit(node)
    program.nodes = folding.nodes
    program.replace(folding.substitutes)


@dataclass
class _Folding:
    """The rewritten nodes so far. `known`: the value that holds a range, by dim and range."""

    program: Program
    nodes: list[Node] = field(default_factory=list)
    producers: dict[Value, Node] = field(default_factory=dict)
    substitutes: dict[Value, Value] = field(default_factory=dict)
    known: dict[tuple[int, Range], Value] = field(default_factory=dict)

    def visit(self, node: Node) -> None:
        node.inputs = [self.substitutes.get(value, value) for value in node.inputs]
        match node.kind:
            case "slice" if node.attrs["step"] == 1:
                is_folded = self._fold_slice(node)
            case "split":
                is_folded = self._fold_split(node)
            case "concat":
                is_folded = self._fold_concat(node)
            case _:
                is_folded = False
        if not is_folded:
            self._append(node)

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self.producers.update((value, node) for value in node.outputs)

    def _fold_slice(self, node: Node) -> bool:
        dim, start, end = node.attrs["dim"], node.attrs["start"], node.attrs["end"]
        maker = self.producers.get(node.inputs[0])
        ranges = list(self._ranges(node.inputs[0], dim, start, end))
        if len(ranges) != 1:
            return False
        # equal slices of two layers stay apart, so that equal layers stay equal
        if maker is None or maker.kind not in ("concat", "full"):
            self.known[dim, ranges[0]] = node.output
            return False
        self.substitutes[node.output] = self._value(ranges[0], dim, node)
        return True

    def _fold_split(self, node: Node) -> bool:
        dim, place = node.attrs["dim"], 0
        values: list[Value | None] = []
        for output in node.outputs:
            end = place + output.shape[dim]
            ranges = list(self._ranges(node.inputs[0], dim, place, end))
            values.append(self._existing(ranges[0], dim) if len(ranges) == 1 else None)
            if len(ranges) == 1:
                self.known[dim, ranges[0]] = output
            place = end
        maker = self.producers.get(node.inputs[0])
        is_concat = maker is not None and maker.kind == "concat"
        if not is_concat or any(value is None for value in values):
            return False
        self.substitutes.update(
            (old, new) for old, new in zip(node.outputs, values, strict=True) if new is not None
        )
        return True

    def _fold_concat(self, node: Node) -> bool:
        dim = node.attrs["dim"]
        pieces = [
            piece
            for value in node.inputs
            for piece in self._ranges(value, dim, 0, value.shape[dim])
        ]
        ranges = self._joined(pieces, dim)
        values = [self._existing(piece, dim) for piece in ranges]
        if len(ranges) == 1 and self._constant(ranges[0].source) is None:
            if values[0] is not None:
                self.substitutes[node.output] = values[0]
                return True
            node.kind, node.inputs = "slice", [ranges[0].source]
            node.attrs = {"dim": dim, "start": ranges[0].start, "end": ranges[0].end, "step": 1}
            return False
        if values != node.inputs:
            node.inputs = [self._value(piece, dim, node) for piece in ranges]
        return False

    def _ranges(self, value: Value, dim: int, start: int, end: int) -> Iterator[Range]:
        """The nonempty ranges that value[start:end] consists of; a whole concat is one range."""
        if start >= end:
            return
        node = self.producers.get(value)
        is_whole = (start, end) == (0, value.shape[dim])
        if node is None or node.attrs.get("dim") != dim or (is_whole and node.kind == "concat"):
            yield Range(value, start, end)
        elif node.kind == "concat":
            place = 0
            for part in node.inputs:
                length = part.shape[dim]
                low, high = max(start - place, 0), min(end - place, length)
                yield from self._ranges(part, dim, low, high)
                place += length
        elif node.kind == "slice" and node.attrs["step"] == 1:
            first = node.attrs["start"]
            yield from self._ranges(node.inputs[0], dim, first + start, first + end)
        else:
            yield Range(value, start, end)

    def _joined(self, pieces: Sequence[Range], dim: int) -> list[Range]:
        """The ranges with adjacent ones of one value, or all parts of a split, as one."""
        joined: list[Range] = []
        for piece in pieces:
            if joined and joined[-1].source is piece.source and joined[-1].end == piece.start:
                joined[-1] = replace(joined[-1], end=piece.end)
            else:
                joined.append(piece)
            split = self.producers.get(piece.source)
            if split is None or split.kind != "split" or split.attrs["dim"] != dim:
                continue
            parts = [Range(value, 0, value.shape[dim]) for value in split.outputs]
            if joined[-len(parts) :] == parts:
                joined[-len(parts) :] = [Range(split.inputs[0], 0, split.inputs[0].shape[dim])]
        return joined

    def _constant(self, value: Value) -> float | int | str | None:
        """The number in every element of the value; None for a value that varies."""
        node = self.producers.get(value)
        return node.attrs["value"] if node is not None and node.kind == "full" else None

    def _existing(self, piece: Range, dim: int) -> Value | None:
        if (piece.start, piece.end) == (0, piece.source.shape[dim]):
            return piece.source
        return self.known.get((dim, piece))

    def _value(self, piece: Range, dim: int, reader: Node) -> Value:
        """The value of a range; a new slice or a new constant where there is none."""
        existing = self._existing(piece, dim)
        if existing is not None:
            return existing
        shape = list(piece.source.shape)
        shape[dim] = piece.end - piece.start
        value = Value("", tuple(shape), piece.source.dtype)
        number = self._constant(piece.source)
        attrs = {"dim": dim, "start": piece.start, "end": piece.end, "step": 1}
        if number is None:
            node = Node("slice", [piece.source], [value], attrs, reader.module)
        else:
            node = Node("full", [], [value], {"value": number}, reader.module)
        self._append(node)
        self.known[dim, piece] = value
        return value
