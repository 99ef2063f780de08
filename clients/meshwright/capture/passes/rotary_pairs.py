"""Recognition of rotary embeddings that rotate each pair of elements on its own.

    first  = a c - b s
    second = b c + a s

a and b are the halves of x, or its even and odd elements; the result stands in halves or in turn
again. The op `rotary` rotates halves, so that even and odd elements are moved to halves before, and
back where the program does so. Such a move is a view of x. A table of d / 2 is repeated for both
halves. Elements in turn are also rotated by

    x c + stack(-odd, even) s

with tables of d, which are moved like x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value


@dataclass(frozen=True, slots=True)
class _Rotation:
    """x and its tables, of d / 2 or of d.

    The flags say whether pairs are elements in turn, before and after.
    """

    x: Value
    cos: Value
    sin: Value
    is_interleaved: bool
    stays_interleaved: bool


def recognize_rotary_pairs(program: Program) -> None:
    """Convert rotations of halves or of elements in turn, with tables of d / 2, to rotary."""
    upstream = Upstream(program)
    additions: dict[Node, list[Node]] = {}
    tables: dict[tuple[str, Value], Value] = {}
    for node in program.nodes:
        rotation = _match(upstream, node)
        if rotation is None:
            continue
        builder = _RotaryBuilder(node.module, tables)
        result = builder.rotated(rotation)
        if result is None:
            continue
        additions[node] = builder.nodes
        node.kind, node.inputs, node.attrs = "reshape", [result], {}
    program.insert_before(additions)


def _match(upstream: Upstream, node: Node) -> _Rotation | None:
    """The rotation whose result this node is."""
    if node.kind == "add":
        return _match_turns(upstream, node)
    if node.kind == "concat" and len(node.inputs) == 2:
        if node.attrs["dim"] != node.output.rank - 1:
            return None
        first, second = node.inputs
        stays_interleaved = False
    elif node.kind == "reshape":
        stack = upstream.producer(node.inputs[0], "stack")
        if stack is None or len(stack.inputs) != 2 or stack.attrs["dim"] != stack.output.rank - 1:
            return None
        first, second = stack.inputs
        if node.output.shape != (*first.shape[:-1], 2 * first.shape[-1]):
            return None
        stays_interleaved = True
    else:
        return None
    for a, b, cos, sin in _rotations(upstream, first, second):
        if a.shape != first.shape or b.shape != first.shape or cos.shape != sin.shape:
            continue
        for find, is_interleaved in ((_of_halves, False), (_of_turns, True)):
            x = find(upstream, a, b)
            if x is not None and x.shape == (*a.shape[:-1], 2 * a.shape[-1]):
                return _Rotation(x, cos, sin, is_interleaved, stays_interleaved)
    return None


def _match_turns(upstream: Upstream, node: Node) -> _Rotation | None:
    """The rotation x c + stack(-odd, even) s."""
    for straight, crossed in upstream.pairs(node.output, "add"):
        for x, cos in upstream.pairs(straight, "mul"):
            for turned, sin in upstream.pairs(crossed, "mul"):
                stack = upstream.producer(upstream.through(turned, "reshape"), "stack")
                if stack is None or stack.attrs["dim"] != x.rank or len(stack.inputs) != 2:
                    continue
                negated, even = stack.inputs
                odd = upstream.producer(negated, "neg")
                if odd is None or turned.shape != x.shape or cos.shape != sin.shape:
                    continue
                if _of_turns(upstream, even, odd.inputs[0]) is x:
                    return _Rotation(x, cos, sin, is_interleaved=True, stays_interleaved=True)
    return None


def _rotations(
    upstream: Upstream, first: Value, second: Value
) -> Iterator[tuple[Value, Value, Value, Value]]:
    """a, b, c and s of a c - b s and b c + a s."""
    difference = upstream.producer(first, "sub")
    if difference is None or len(difference.inputs) != 2:
        return
    minuend, subtrahend = difference.inputs
    for a, cos in upstream.pairs(minuend, "mul"):
        for b, sin in upstream.pairs(subtrahend, "mul"):
            for straight, crossed in upstream.pairs(second, "add"):
                if {b, cos} == set(_factors(upstream, straight)) and {a, sin} == set(
                    _factors(upstream, crossed)
                ):
                    yield a, b, cos, sin


def _factors(upstream: Upstream, value: Value) -> list[Value]:
    product = upstream.producer(value, "mul")
    return product.inputs if product is not None and len(product.inputs) == 2 else []


def _of_halves(upstream: Upstream, a: Value, b: Value) -> Value | None:
    """The value whose halves along the last dim are a and b."""
    split = upstream.producer(a, "split")
    if split is not None:
        is_pair = split.outputs == [a, b] and split.attrs["dim"] == a.rank - 1
        return split.inputs[0] if is_pair else None
    half = a.shape[-1]
    return _of_slices(upstream, a, b, ((0, half, 1), (half, 2 * half, 1)))


def _of_turns(upstream: Upstream, a: Value, b: Value) -> Value | None:
    """The value whose even and odd elements along the last dim are a and b."""
    length = 2 * a.shape[-1]
    x = _of_slices(upstream, a, b, ((0, length, 2), (1, length, 2)))
    if x is not None:
        return x
    first, second = (upstream.through(value, "reshape") for value in (a, b))
    if any(column.shape != (*a.shape, 1) for column in (first, second)):
        return None
    paired = _of_slices(upstream, first, second, ((0, 1, 1), (1, 2, 1))) or _of_halves(
        upstream, first, second
    )
    return None if paired is None else upstream.through(paired, "reshape")


def _of_slices(
    upstream: Upstream, a: Value, b: Value, places: tuple[tuple[int, int, int], ...]
) -> Value | None:
    sources = []
    for value, place in zip((a, b), places, strict=True):
        part = upstream.producer(value, "slice")
        if part is None or part.attrs["dim"] != value.rank - 1:
            return None
        if (part.attrs["start"], part.attrs["end"], part.attrs["step"]) != place:
            return None
        sources.append(part.inputs[0])
    return sources[0] if sources[0] is sources[1] else None


@dataclass
class _RotaryBuilder:
    """The new nodes of one rotation. `tables`: those of d by module and table of d / 2."""

    module: str
    tables: dict[tuple[str, Value], Value]
    nodes: list[Node] = field(default_factory=list)

    def rotated(self, rotation: _Rotation) -> Value | None:
        """The rotated value in the order of the program; None where no dim is that of heads."""
        x, cos = rotation.x, rotation.cos
        if x.rank != 4 or cos.rank != 4 or cos.shape[3] * 2 not in (x.shape[3], 2 * x.shape[3]):
            return None
        heads = next((dim for dim in (1, 2) if _broadcasts(cos, x, dim)), None)
        if heads is None:
            return None
        tables = [self._table(table, heads, x.shape[3]) for table in (rotation.cos, rotation.sin)]
        if rotation.is_interleaved:
            x = self._regrouped(x, (x.shape[3] // 2, 2))
        order = [0, 2, 1, 3]
        if heads == 2:
            x = self._step("transpose", [x], [x.shape[dim] for dim in order], dims=order)
        x = self._step("rotary", [x, *tables], x.shape)
        if heads == 2:
            x = self._step("transpose", [x], [x.shape[dim] for dim in order], dims=order)
        if rotation.stays_interleaved:
            x = self._regrouped(x, (2, x.shape[3] // 2))
        return x

    def _table(self, table: Value, heads: int, width: int) -> Value:
        """The table [b, s, d] of a table with a dim for heads, of d / 2 or of d in turn."""
        key = (self.module, table)
        if key not in self.tables:
            shape = [size for dim, size in enumerate(table.shape) if dim != heads]
            rows = self._step("reshape", [table], shape)
            if shape[-1] == width:
                self.tables[key] = self._regrouped(rows, (width // 2, 2))
            else:
                shape[-1] = width
                self.tables[key] = self._step("concat", [rows, rows], shape, dim=2)
        return self.tables[key]

    def _regrouped(self, x: Value, groups: tuple[int, int]) -> Value:
        """The last dim as groups, with the groups' elements side by side."""
        lead = list(x.shape[:-1])
        grouped = self._step("reshape", [x], [*lead, *groups])
        order = [*range(len(lead)), len(lead) + 1, len(lead)]
        turned = self._step("transpose", [grouped], [*lead, groups[1], groups[0]], dims=order)
        return self._step("reshape", [turned], x.shape)

    def _step(
        self, kind: str, inputs: list[Value], shape: list[int] | tuple[int, ...], **attrs: object
    ) -> Value:
        result = Value("", tuple(shape), inputs[0].dtype)
        self.nodes.append(Node(kind, inputs, [result], attrs, self.module))
        return result


def _broadcasts(table: Value, x: Value, heads: int) -> bool:
    """Whether the table has one row for all heads, and rows for the sequence."""
    sequence = 3 - heads
    return (
        table.shape[heads] == 1
        and table.shape[sequence] == x.shape[sequence]
        and table.shape[0] in (1, x.shape[0])
        and x.shape[sequence] != 1
    )
