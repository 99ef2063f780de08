"""Recognition of attention that is written out in products and a softmax.

    scores  = softcap * tanh(q @ k^T * scale / softcap)       the cap is optional
    weights = softmax([scores + mask, sinks])                 mask and sinks are optional
    output  = weights without the sinks' column @ v

`sinks` holds one learned score for each head, which takes weight and adds nothing to the output.
The pass looks at what is computed, backwards from the last product. Casts between do not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value

_HIDDEN = -1e4  # chosen: below it, a score of a masked position has no weight


def recognize_attention(program: Program) -> None:
    """Convert the last product of each written-out attention to attention."""
    upstream = Upstream(program)
    readers = program.readers()
    additions: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if node.kind != "matmul" or node.output.rank != 4:
            continue
        match = _Match(upstream, readers, node)
        if not match.follow():
            continue
        additions[node] = match.nodes
        node.kind = "attention"
        node.inputs = [match.query, match.key, node.inputs[1], *match.mask, *match.sinks]
        node.attrs = match.attrs
    program.insert_before(additions)


@dataclass
class _Match:
    """One attention during the match. `nodes`: new nodes before it."""

    upstream: Upstream
    readers: dict[Value, list[Node]]
    product: Node
    scale: float = 1.0
    softcap: float | None = None
    dropout: float = 0.0
    mask: list[Value] = field(default_factory=list)
    sinks: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    query: Value = field(init=False)
    key: Value = field(init=False)

    @property
    def attrs(self) -> dict[str, object]:
        return {
            "causal": False,
            "scale": self.scale,
            **({"softcap": self.softcap} if self.softcap is not None else {}),
            **({"sinks": True} if self.sinks else {}),
            **({"dropout": self.dropout} if self.dropout else {}),
        }

    def follow(self) -> bool:
        """Match from the weights up to the queries and keys; False for another computation."""
        weights, value = self.product.inputs
        if value.rank != 4 or weights.rank != 4:
            return False
        weights = self._through_dropout(weights)
        length = value.shape[2]
        cut = self.upstream.producer(weights, "slice")
        if cut is not None and cut.attrs["dim"] == 3:
            if (cut.attrs["start"], cut.attrs["end"], cut.attrs["step"]) != (0, length, 1):
                return False
            weights = self._uncast(cut.inputs[0])
        softmax = self.upstream.producer(weights, "softmax")
        if softmax is None or softmax.attrs["dim"] != 3:
            return False
        # weights that are read elsewhere are computed anyway
        if len(self.readers.get(softmax.output, ())) > 1:
            return False
        scores = self._without_maximum(self._uncast(softmax.inputs[0]))
        if cut is not None:
            scores_part = self._without_sinks(scores, length)
            if scores_part is None:
                return False
            scores = scores_part
        return scores.shape[3] == length and self._match_scores(scores)

    def _uncast(self, value: Value) -> Value:
        while (cast := self.upstream.producer(value, "cast")) is not None:
            value = cast.inputs[0]
        return value

    def _through_dropout(self, weights: Value) -> Value:
        weights = self._uncast(weights)
        dropout = self.upstream.producer(weights, "dropout")
        if dropout is None or dropout.output is not weights:
            return weights
        self.dropout = dropout.attrs["p"]
        return self._uncast(dropout.inputs[0])

    def _without_maximum(self, scores: Value) -> Value:
        """x of x - max(x), which has the same softmax."""
        shifted = self.upstream.producer(scores, "sub")
        if shifted is None or len(shifted.inputs) != 2:
            return scores
        x, maximum = shifted.inputs
        amax = self.upstream.producer(maximum, "amax")
        if amax is None or amax.inputs[0] is not x or list(amax.attrs["dims"]) != [3]:
            return scores
        return self._uncast(x)

    def _without_sinks(self, scores: Value, length: int) -> Value | None:
        """The scores of the keys; the scores of the sinks, one for each head, go to `sinks`."""
        concat = self.upstream.producer(scores, "concat")
        if concat is None or concat.attrs["dim"] != 3 or len(concat.inputs) != 2:
            return None
        keys, column = concat.inputs
        heads = column.shape[1]
        shape = self.upstream.through(self._uncast(column), "expand")
        sinks = self.upstream.through(self._uncast(shape), "reshape")
        if keys.shape[3] != length or sinks.shape != (heads,) or shape.shape != (1, heads, 1, 1):
            return None
        self.sinks = [sinks]
        return self._uncast(keys)

    def _match_scores(self, scores: Value) -> bool:
        scores = self._without_mask(scores)
        scores = self._without_softcap(scores)
        while True:
            scores = self._uncast(scores)
            if (scaled := self.upstream.scalar(scores, "mul")) is not None:
                scores, factor = scaled
            elif (scaled := self.upstream.scalar(scores, "div")) is not None and scaled[1]:
                scores, factor = scaled[0], 1 / scaled[1]
            else:
                break
            self.scale *= factor
        product = self.upstream.producer(scores, "matmul")
        if product is None or product.output.rank != 4 or any(v.rank != 4 for v in product.inputs):
            return False
        query, columns = (self._uncast(value) for value in product.inputs)
        key = self._uncast(self._transposed(columns))
        value = self.product.inputs[1]
        if columns.shape[:2] != value.shape[:2] or query.shape[1] % columns.shape[1]:
            return False
        if query.shape[0] != columns.shape[0] or len({v.dtype for v in (query, key, value)}) > 1:
            return False
        self.query, self.key = query, key
        return True

    def _transposed(self, columns: Value) -> Value:
        """The keys [b, h, t, d] of [b, h, d, t]."""
        order = [0, 1, 3, 2]
        transpose = self.upstream.producer(columns, "transpose")
        if transpose is not None and list(transpose.attrs["dims"]) == order:
            return transpose.inputs[0]
        shape = tuple(columns.shape[dim] for dim in order)
        keys = Value("", shape, columns.dtype)
        module = self.product.module
        self.nodes.append(Node("transpose", [columns], [keys], {"dims": order}, module))
        return keys

    def _without_mask(self, scores: Value) -> Value:
        """The scores before their mask; the mask goes to `mask`."""
        for inner, mask in self.upstream.pairs(scores, "add"):
            if inner.shape == scores.shape and self._is_product(inner) and 2 <= mask.rank <= 4:
                self.mask = [mask]
                return self._uncast(inner)
        fill = self.upstream.producer(scores, "masked_fill")
        if fill is not None and len(fill.inputs) == 2 and _is_hidden(fill.attrs["value"]):
            self.mask = [self._negated(fill.inputs[1])]
            return self._uncast(fill.inputs[0])
        where = self.upstream.producer(scores, "where")
        if where is None or len(where.inputs) != 2:
            return scores
        condition, inner = where.inputs
        if _is_hidden(where.attrs.get("other")):
            self.mask = [condition]
        elif _is_hidden(where.attrs.get("self")):
            self.mask = [self._negated(condition)]
        return self._uncast(inner) if self.mask else scores

    def _negated(self, hidden: Value) -> Value:
        visible = Value("", hidden.shape, "bool")
        self.nodes.append(Node("logical_not", [hidden], [visible], module=self.product.module))
        return visible

    def _is_product(self, value: Value) -> bool:
        """Whether the value is a product of queries and keys, scaled or capped."""
        while True:
            value = self._uncast(value)
            nodes = (self.upstream.producer(value, kind) for kind in ("mul", "div", "tanh"))
            node = next((node for node in nodes if node is not None), None)
            if node is None or len(node.inputs) != 1:
                return self.upstream.producer(value, "matmul") is not None
            value = node.inputs[0]

    def _without_softcap(self, scores: Value) -> Value:
        """x of cap * tanh(x / cap)."""
        capped = self.upstream.scalar(scores, "mul")
        tanh = capped and self.upstream.producer(self._uncast(capped[0]), "tanh")
        if not capped or not tanh:
            return scores
        inner = self._uncast(tanh.inputs[0])
        x = self.upstream.with_number(inner, "div", capped[1])
        if x is None and capped[1]:
            x = self.upstream.with_number(inner, "mul", 1 / capped[1])
        if x is None:
            return scores
        self.softcap = capped[1]
        return self._uncast(x)


def _is_hidden(fill: object) -> bool:
    if isinstance(fill, str):
        return fill == "-inf"
    return isinstance(fill, (int, float)) and not math.isnan(fill) and fill < _HIDDEN
