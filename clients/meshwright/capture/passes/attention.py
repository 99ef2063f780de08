"""Recognition of attention that is written out in products and a softmax.

    scores  = softcap * tanh(q @ k^T * scale / softcap)       the cap is optional
    weights = softmax([scores + bias where visible, sinks])   biases, masks, sinks are optional
    output  = weights without the sinks' column @ v

`sinks` holds one learned score for each head, which takes weight and adds nothing to the output.
The pass looks at what is computed, backwards from the last product. The rows of the scores may
have any dims: [b, h, s], [b * h, s], [b, g, r, s], [b, g, r * s] or [b, s].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from meshwright.capture.passes.dim_groups import Factors, groups, refinement
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.passes.score_chain import ScoreChain, chains
from meshwright.capture.passes.score_terms import MaskBuilder, MaskNodes, Shape
from meshwright.capture.program import Node, Program, Value


def recognize_attention(program: Program) -> None:
    """Convert the last product of each written-out attention to attention."""
    upstream = Upstream(program)
    additions: dict[Node, list[Node]] = {}
    for node, chain in chains(program):
        product = chain.follow()
        match = None if product is None else _matched(upstream, chain, product, node)
        if match is not None:
            additions[node] = match
    program.insert_before(additions)


@dataclass(frozen=True, slots=True)
class _Heads:
    """The factors of the rows, by the dims batch, heads and positions; `grouped` of the heads."""

    factors: Factors
    of_dims: tuple[tuple[int, ...], ...]
    shared: int  # the last so many factors of the heads read the same keys

    def sizes(self) -> Shape:
        return tuple(math.prod(self.factors[index] for index in group) for group in self.of_dims)

    def groups_of_keys(self) -> int:
        heads = self.of_dims[1]
        return math.prod(self.factors[index] for index in heads[: len(heads) - self.shared])


@dataclass
class _Rebuilt:
    """New nodes before the attention."""

    module: str
    nodes: list[Node] = field(default_factory=list)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        return value if value.shape == shape else self._add("reshape", value, shape, {})

    def transposed(self, upstream: Upstream, value: Value) -> Value:
        """The value with its last two dims exchanged."""
        order = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
        transpose = upstream.producer(value, "transpose")
        if transpose is not None and list(transpose.attrs["dims"]) == order:
            return transpose.inputs[0]
        return self._add("transpose", value, tuple(value.shape[d] for d in order), {"dims": order})

    def _add(self, kind: str, value: Value, shape: Shape, attrs: dict[str, object]) -> Value:
        result = Value("", shape, value.dtype)
        self.nodes.append(Node(kind, [value], [result], attrs, self.module))
        return result


def _matched(upstream: Upstream, chain: ScoreChain, product: Node, last: Node) -> list[Node] | None:
    """Make the last product attention; its new nodes, or None for another computation."""
    rank = product.output.rank
    if any(value.rank != rank for value in product.inputs) or chain.dims[:-2] != [*range(rank - 2)]:
        return None
    rebuilt = _Rebuilt(last.module)
    left, right = product.inputs
    if chain.dims[-1] == rank - 1:
        query, columns = _unscaled(upstream, chain, left), _unscaled(upstream, chain, right)
        key = _unscaled(upstream, chain, rebuilt.transposed(upstream, columns))
    else:
        query, key = _unscaled(upstream, chain, right), _unscaled(upstream, chain, left)
        query = _unscaled(upstream, chain, rebuilt.transposed(upstream, query))
    value = last.inputs[1]
    heads = _heads(upstream, chain, (query, key, value), product)
    if heads is None or len({v.dtype for v in (query, key, value)}) > 1:
        return None
    batch, count, rows = heads.sizes()
    keys = last.inputs[0].shape[-1]
    made = MaskNodes(last.module)
    mask = MaskBuilder(made, heads.factors, heads.of_dims, keys).mask(chain.terms[::-1])
    lead = (batch, heads.groups_of_keys())
    inputs = [
        rebuilt.reshaped(query, (batch, count, rows, query.shape[-1])),
        rebuilt.reshaped(key, (*lead, keys, key.shape[-1])),
        rebuilt.reshaped(value, (*lead, keys, value.shape[-1])),
        *([] if mask is None else [mask]),
        *chain.sinks,
    ]
    if chain.sinks and chain.sinks[0].shape != (count,):
        return None
    attrs: dict[str, object] = {
        "causal": False,
        "scale": chain.scale,
        **({"softcap": chain.softcap} if chain.softcap is not None else {}),
        **({"sinks": True} if chain.sinks else {}),
        **({"dropout": chain.dropout} if chain.dropout else {}),
    }
    nodes = [*chain.negations, *rebuilt.nodes, *made.nodes]
    for node in nodes:
        node.module = last.module
    shape = (batch, count, rows, value.shape[-1])
    if last.output.shape == shape:
        last.kind, last.inputs, last.attrs = "attention", inputs, attrs
        return nodes
    result = Value("", shape, last.output.dtype)
    last.kind, last.inputs, last.attrs = "reshape", [result], {}
    return [*nodes, Node("attention", inputs, [result], attrs, last.module)]


def _heads(
    upstream: Upstream, chain: ScoreChain, operands: tuple[Value, Value, Value], product: Node
) -> _Heads | None:
    """The rows of the scores as batch, heads and positions; None where they have no such form."""
    query, key, value = operands
    rows = query.shape[:-1]
    if rows[-1] == 1:
        return None  # one query: the factors, which have no 1, would lack the positions
    factors: Factors | None = tuple(size for size in rows if size != 1)
    views = [*chain.rows]
    if len(rows) == 2 and all(len(view) == 2 for view in views):
        views.append((*_merged_dims(upstream, query), rows[-1]))
    for view in views:
        factors = None if factors is None else refinement(factors, view)
    if not factors or math.prod(rows) != math.prod(product.output.shape) // key.shape[-2]:
        return None
    shares = [
        _shared_factors(operand.shape[:-2], whole, factors)
        for operand, whole in ((key, rows), (value, chain.weights.shape[:-1]))
    ]
    if None in shares or shares[0] != shares[1]:
        return None
    shared = shares[0] or 0
    whole = len(factors) - 1 - shared
    # without heads, the keys of one batch dim are those of one head
    batch_dims = whole - 1 if whole > 1 else whole
    if rows[:1] == (1,) and not shared and whole == 1:
        batch_dims = 0
    sizes = [term.factor_sizes(factors) for term in chain.terms]
    if None in sizes:
        return None
    of_dims = _of_dims(len(factors), batch_dims)
    # a mask that differs by a part of the batch, such as the windows of an image, is one of heads
    if not shared and any(_is_mixed(one, of_dims[0]) for one in sizes):
        of_dims = _of_dims(len(factors), 1)
    return _Heads(factors, of_dims, shared)


def _of_dims(count: int, first: int) -> tuple[tuple[int, ...], ...]:
    return tuple(range(first)), tuple(range(first, count - 1)), (count - 1,)


def _is_mixed(sizes: Shape | None, group: tuple[int, ...]) -> bool:
    return sizes is not None and len({sizes[index] == 1 for index in group}) > 1


def _shared_factors(lead: Shape, rows: Shape, factors: Factors) -> int | None:
    """The last so many factors before the positions for which keys broadcast; None for others."""
    of_dims = groups(rows, factors)
    if of_dims is None or len(lead) != len(rows) - 1:
        return None
    is_whole: list[bool] = []
    for size, full, group in zip(lead, rows, of_dims, strict=False):
        if size not in (1, full):
            return None
        is_whole += [size == full] * len(group)
    is_whole += [False] * (len(factors) - 1 - len(is_whole))
    count = is_whole.count(True)
    return len(is_whole) - count if all(is_whole[:count]) else None


def _merged_dims(upstream: Upstream, value: Value) -> Shape:
    """The dims that a reshape merged into the first dim of a value, before later transposes."""
    dim, size = 0, value.shape[0]
    for _ in range(8):  # chosen: casts, scales and transposes before the product
        value = _uncast(upstream, value)
        transpose = upstream.producer(value, "transpose")
        reshape = upstream.producer(value, "reshape")
        scaled = upstream.scalar(value, "mul") or upstream.scalar(value, "div")
        if transpose is not None:
            dim, value = transpose.attrs["dims"][dim], transpose.inputs[0]
        elif scaled is not None:
            value = scaled[0]
        elif reshape is not None:
            factors = refinement(reshape.inputs[0].shape, value.shape)
            of_dims = factors and groups(value.shape, factors)
            return tuple(factors[i] for i in of_dims[dim]) if factors and of_dims else (size,)
        else:
            break
    return (size,)


def _unscaled(upstream: Upstream, chain: ScoreChain, value: Value) -> Value:
    """The value before casts and factors; the scale of the scores takes the factors."""
    while True:
        value = _uncast(upstream, value)
        if (scaled := upstream.scalar(value, "mul")) is not None:
            chain.scale *= scaled[1]
        elif (scaled := upstream.scalar(value, "div")) is not None and scaled[1]:
            chain.scale /= scaled[1]
        else:
            return value
        value = scaled[0]


def _uncast(upstream: Upstream, value: Value) -> Value:
    while (cast := upstream.producer(value, "cast")) is not None:
        value = cast.inputs[0]
    return value
