"""The chain of ops from the weights of attention back to the product of queries and keys.

    product -> scale, cap, mask, bias -> softmax -> dropout -> weights

Views may stand anywhere between: the chain follows the dims of the scores through transposes and
through reshapes that keep the keys, which are the dim of the softmax. Casts do not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from meshwright.capture.passes.mask_parts import is_hidden
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.passes.score_terms import ScoreTerm, Shape
from meshwright.capture.program import Node, Program, Value

_CHAIN = frozenset(
    {"cast", "add", "mul", "div", "tanh", "reshape", "transpose", "where", "masked_fill", "sub"}
)


@dataclass
class ScoreChain:
    """One chain during its match.

    dims: the dims of the current value in the order of the rows and the keys. rows: the shapes of
    the rows at every view. factor: what the scores were multiplied by since the current value.
    """

    upstream: Upstream
    readers: dict[Value, list[Node]]
    weights: Value
    dropout: float = 0.0
    factor: float = 1.0
    scale: float = 1.0
    softcap: float | None = None
    terms: list[ScoreTerm] = field(default_factory=list)
    negations: list[Node] = field(default_factory=list)
    sinks: list[Value] = field(default_factory=list)
    rows: list[Shape] = field(default_factory=list)
    dims: list[int] = field(init=False)

    def follow(self) -> Node | None:
        """The product of queries and keys; None for another computation."""
        self.dims = list(range(self.weights.rank))
        keys = self.weights.shape[-1]
        value = self._through_dropout(self._through_views(self.weights))
        cut = self._cut_of_sinks(value, keys)
        if cut is not None:
            value = cut
        softmax = self._softmax(value)
        if softmax is None:
            return None
        scores = self._through_views(self._without_maximum(self._uncast(softmax)))
        if cut is not None:
            without = self._without_sinks(scores, keys)
            if without is None:
                return None
            scores = without
        product = self._product_of(scores)
        if product is None or product.output.shape[self.dims[-1]] != keys:
            return None
        self.scale = self.factor
        return product

    def _uncast(self, value: Value) -> Value:
        while (cast := self.upstream.producer(value, "cast")) is not None:
            value = cast.inputs[0]
        return value

    def _through_views(self, value: Value) -> Value:
        """The value before casts and views, with its dims."""
        while True:
            value = self._uncast(value)
            self.rows.append(tuple(value.shape[dim] for dim in self.dims[:-1]))
            transpose = self.upstream.producer(value, "transpose")
            reshape = self.upstream.producer(value, "reshape")
            if transpose is not None:
                self.dims = [transpose.attrs["dims"][dim] for dim in self.dims]
                value = transpose.inputs[0]
            elif reshape is not None and self._keeps_keys(reshape):
                value = reshape.inputs[0]
                self.dims = list(range(value.rank))
            else:
                return value

    def _keeps_keys(self, reshape: Node) -> bool:
        before, after = reshape.inputs[0].shape, reshape.output.shape
        is_in_order = self.dims == list(range(len(after)))
        return is_in_order and before[-1:] == after[-1:]

    def _through_dropout(self, weights: Value) -> Value:
        dropout = self.upstream.producer(weights, "dropout")
        if dropout is None or dropout.output is not weights:
            return weights
        self.dropout = dropout.attrs["p"]
        return self._through_views(dropout.inputs[0])

    def _softmax(self, weights: Value) -> Value | None:
        """The scores of a softmax over the keys."""
        node = self.upstream.producer(weights, "softmax")
        if node is None:
            exp = self.upstream.producer(weights, "exp")
            node = exp and self.upstream.producer(exp.inputs[0], "log_softmax")
        if node is None:
            return self._written_softmax(weights)
        # weights that are read elsewhere are computed anyway
        if node.attrs["dim"] != self.dims[-1] or len(self.readers.get(weights, ())) > 1:
            return None
        return node.inputs[0]

    def _written_softmax(self, weights: Value) -> Value | None:
        """x of exp(x) / sum(exp(x))."""
        quotient = self.upstream.producer(weights, "div")
        if quotient is None or len(quotient.inputs) != 2:
            return None
        exp = self.upstream.producer(quotient.inputs[0], "exp")
        total = self.upstream.producer(quotient.inputs[1], "sum")
        if exp is None or total is None or total.inputs[0] is not exp.output:
            return None
        if list(total.attrs["dims"]) != [self.dims[-1]] or not total.attrs["keepdim"]:
            return None
        return exp.inputs[0]

    def _without_maximum(self, scores: Value) -> Value:
        """x of x - max(x), which has the same softmax."""
        shifted = self.upstream.producer(scores, "sub")
        if shifted is None or len(shifted.inputs) != 2:
            return scores
        x, maximum = shifted.inputs
        amax = self.upstream.producer(maximum, "amax")
        if amax is None or amax.inputs[0] is not x or list(amax.attrs["dims"]) != [self.dims[-1]]:
            return scores
        return self._uncast(x)

    def _cut_of_sinks(self, weights: Value, keys: int) -> Value | None:
        """The weights with the column of the sinks; None without sinks."""
        cut = self.upstream.producer(weights, "slice")
        if cut is None or weights.rank != 4 or cut.attrs["dim"] != 3:
            return None
        if (cut.attrs["start"], cut.attrs["end"], cut.attrs["step"]) != (0, keys, 1):
            return None
        return self._uncast(cut.inputs[0])

    def _without_sinks(self, scores: Value, keys: int) -> Value | None:
        """The scores of the keys; the scores of the sinks, one for each head, go to `sinks`."""
        concat = self.upstream.producer(scores, "concat")
        if concat is None or concat.attrs["dim"] != 3 or len(concat.inputs) != 2:
            return None
        of_keys, column = concat.inputs
        heads = column.shape[1]
        shape = self.upstream.through(self._uncast(column), "expand")
        sinks = self.upstream.through(self._uncast(shape), "reshape")
        is_vector = sinks.shape == (heads,) and shape.shape == (1, heads, 1, 1)
        if of_keys.shape[3] != keys or not is_vector:
            return None
        self.sinks = [sinks]
        return self._through_views(of_keys)

    def _product_of(self, scores: Value) -> Node | None:
        """The product, after scales, the cap and the terms of the scores."""
        while True:
            scores = self._through_views(scores)
            inner = (
                self._without_softcap(scores)
                or self._without_scale(scores)
                or self._without_bias(scores)
                or self._without_condition(scores)
            )
            if inner is None:
                return self.upstream.producer(scores, "matmul")
            scores = inner

    def _without_scale(self, scores: Value) -> Value | None:
        if (scaled := self.upstream.scalar(scores, "mul")) is not None:
            inner, factor = scaled
        elif (scaled := self.upstream.scalar(scores, "div")) is not None and scaled[1]:
            inner, factor = scaled[0], 1 / scaled[1]
        else:
            return None
        self.factor *= factor
        return inner

    def _without_softcap(self, scores: Value) -> Value | None:
        """x of cap * tanh(x / cap)."""
        capped = self.upstream.scalar(scores, "mul")
        tanh = capped and self.upstream.producer(self._uncast(capped[0]), "tanh")
        if not capped or not tanh or self.softcap is not None or self.factor != 1:
            return None
        inner = self._uncast(tanh.inputs[0])
        x = self.upstream.with_number(inner, "div", capped[1])
        if x is None and capped[1]:
            x = self.upstream.with_number(inner, "mul", 1 / capped[1])
        if x is not None:
            self.softcap = capped[1]
        return x

    def _without_bias(self, scores: Value) -> Value | None:
        for inner, bias in self.upstream.pairs(scores, "add"):
            if inner.shape == scores.shape and self._has_product(inner):
                return self._with_term(inner, bias, scores, is_condition=False)
        return None

    def _without_condition(self, scores: Value) -> Value | None:
        fill = self.upstream.producer(scores, "masked_fill")
        if fill is not None and len(fill.inputs) == 2 and is_hidden(fill.attrs["value"]):
            return self._with_term(fill.inputs[0], self._negated(fill.inputs[1]), scores)
        where = self.upstream.producer(scores, "where")
        if where is None:
            return None
        condition, *choices = where.inputs
        first, second = self._choices(where, choices)
        if isinstance(first, Value) and is_hidden(second):
            return self._with_term(first, condition, scores)
        if isinstance(second, Value) and is_hidden(first):
            return self._with_term(second, self._negated(condition), scores)
        return None

    def _choices(self, where: Node, values: list[Value]) -> tuple[object, object]:
        """Both choices, each a value or a number."""
        rest = iter(values)
        choices: list[object] = []
        for name in ("self", "other"):
            choice = where.attrs[name] if name in where.attrs else next(rest)
            full = self.upstream.producer(choice, "full") if isinstance(choice, Value) else None
            choices.append(choice if full is None else full.attrs["value"])
        return choices[0], choices[1]

    def _with_term(
        self, inner: Value, term: Value, scores: Value, *, is_condition: bool = True
    ) -> Value | None:
        # what stands inside the cap is no term of the scores
        if inner.shape != scores.shape or self.softcap is not None:
            return None
        at, dims = scores.shape, tuple(self.dims)
        self.terms.append(ScoreTerm(term, at, dims, self.factor, is_condition))
        return inner

    def _negated(self, hidden: Value) -> Value:
        visible = Value("", hidden.shape, "bool")
        self.negations.append(Node("logical_not", [hidden], [visible]))
        return visible

    def _has_product(self, value: Value) -> bool:
        """Whether the value is a product with scales, a cap, terms and views."""
        waiting, steps = [value], 0
        while waiting and steps < 40:  # chosen: more than any spelling has
            value = waiting.pop()
            steps += 1
            if self.upstream.producer(value, "matmul") is not None:
                return True
            node = next((n for k in _CHAIN if (n := self.upstream.producer(value, k))), None)
            if node is not None:
                waiting += [x for x in node.inputs if math.prod(x.shape) == math.prod(value.shape)]
        return False


def chains(program: Program) -> list[tuple[Node, ScoreChain]]:
    """The products of weights and values that may end attention, with their chains."""
    upstream, readers = Upstream(program), program.readers()
    return [
        (node, ScoreChain(upstream, readers, node.inputs[0]))
        for node in program.nodes
        if node.kind == "matmul"
        and node.output.rank > 1
        and len({v.rank for v in node.inputs}) == 1
    ]
