"""Recognition of experts that a program applies to every token, with zeros for those not chosen.

Such a program repeats all tokens for all experts, scales each copy by the router's score, and sums
the results. The score is zero except for the chosen expert, and an expert without biases gives zero
for zero. In the canonical form an expert computes the tokens that chose it:

    x[b,s,h] * score[b,s,1] -> moe_dispatch -> expert_matmul ... -> moe_combine with weight 1

The pass covers routers with one expert for each token, whose score scales the expert's input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from meshwright.capture.passes.expert_slots import expert_weight, row_wise
from meshwright.capture.passes.mixture import slots_of_an_expert
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value

# ops that give zero where one of their inputs is zero
_KEEPS_ZERO = frozenset({"silu", "gelu", "relu", "tanh", "mul", "cast"})


def recognize_dense_experts(program: Program) -> None:
    """Replace experts that compute all tokens by experts with slots."""
    upstream = Upstream(program)
    places = {node: place for place, node in enumerate(program.nodes)}
    additions: dict[Node, list[Node]] = {}
    substitutes: dict[Value, Value] = {}
    for node in program.nodes:
        tokens = _routed_tokens(upstream, node)
        if tokens is None:
            continue
        region = _DenseExperts(upstream, tokens, node)
        last = region.rewrite(program, program.nodes[places[node] + 1 :])
        if last is not None:
            additions[last] = region.nodes
            substitutes[last.output] = region.nodes[-1].output
    program.insert_before(additions)
    program.replace(substitutes)


@dataclass(frozen=True, slots=True)
class _RoutedTokens:
    """Tokens [b, s, h], and the router's choice and scattered score, [b, s, 1] each.

    functions: element-wise nodes between the scattered scores and the factor of the tokens.
    """

    tokens: Value
    index: Value
    score: Value
    functions: list[Node]
    experts: int


def _routed_tokens(upstream: Upstream, node: Node) -> _RoutedTokens | None:
    """The tokens of a product of all tokens for all experts with scores, or None."""
    for repeated, factor in upstream.pairs(node.output, "mul"):
        expand = upstream.producer(upstream.through(repeated, "reshape"), "expand")
        transpose = upstream.producer(upstream.through(factor, "reshape"), "transpose")
        if expand is None or transpose is None or list(transpose.attrs["dims"]) != [1, 0]:
            continue
        tokens = upstream.through(expand.inputs[0], "reshape")
        scores = upstream.through(transpose.inputs[0], "reshape")
        if tokens.rank != 3 or scores.rank != 3 or tokens.shape[:2] != scores.shape[:2]:
            continue
        experts, rows = scores.shape[2], math.prod(tokens.shape[:2])
        if [size for size in expand.output.shape if size != 1] != [experts, rows, tokens.shape[2]]:
            continue
        routed = _scattered(upstream, tokens, scores)
        if routed is not None:
            return routed
    return None


def _scattered(upstream: Upstream, tokens: Value, scores: Value) -> _RoutedTokens | None:
    """Scores that are zero except for one expert of each token."""
    functions: list[Node] = []
    value = scores
    while True:
        node = next(
            (n for kind in ("cast", "sigmoid") if (n := upstream.producer(value, kind))), None
        )
        if node is None:
            break
        functions.insert(0, node)
        value = node.inputs[0]
    scatter = upstream.producer(value, "scatter")
    if scatter is None or len(scatter.inputs) != 3 or scatter.attrs["dim"] != 2:
        return None
    base, index, score = scatter.inputs
    full = upstream.producer(base, "full")
    is_sigmoid = any(node.kind == "sigmoid" for node in functions)
    if full is None or full.attrs["value"] not in (("-inf",) if is_sigmoid else (0, 0.0)):
        return None
    if index.shape != (*tokens.shape[:2], 1) or score.shape != index.shape:
        return None
    return _RoutedTokens(tokens, index, score, functions, scores.shape[2])


@dataclass
class _DenseExperts:
    """The experts of one layer during the rewrite; `slots` maps rows [e, b*s, h] to slots."""

    upstream: Upstream
    routed: _RoutedTokens
    product: Node
    slots: dict[Value, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def rewrite(self, program: Program, later: list[Node]) -> Node | None:
        """Rewrite up to the sum over experts; returns that node, or None for another pattern."""
        self._dispatch(program)
        for node in later:
            rows = [value for value in node.inputs if value in self.slots]
            if not rows:
                continue
            if node.kind == "sum":
                return self._combine(node, rows[0])
            if not self._follow(node, rows):
                return None
        return None

    def _dispatch(self, program: Program) -> None:
        routed = self.routed
        score = routed.score
        for function in routed.functions:
            result = Value("", score.shape, function.output.dtype)
            attrs = dict(function.attrs)
            self.nodes.append(Node(function.kind, [score], [result], attrs, function.module))
            score = result
        batch, length, hidden = routed.tokens.shape
        scaled = self._step("mul", [routed.tokens, score], routed.tokens.shape)
        capacity = slots_of_an_expert(program, length, 1, routed.experts)
        shape = (routed.experts, batch, capacity, hidden)
        self.slots[self.product.output] = self._step(
            "moe_dispatch", [scaled, routed.index], shape, capacity_factor=1.0
        )

    def _follow(self, node: Node, rows: list[Value]) -> bool:
        first = rows[0]
        experts, _, _, width = self.slots[first].shape
        if node.kind == "reshape":
            if [size for size in node.output.shape if size != 1][-1:] != [width]:
                return False
            self.slots[node.output] = self.slots[first]
            return True
        if node.kind == "matmul" and node.inputs[0] is first and node.inputs[1].rank == 3:
            return node.inputs[1].shape[0] == experts and self._multiply(node)
        if node.kind in _KEEPS_ZERO and len(rows) == len(node.inputs):
            return self._row_wise(node, dict(node.attrs))
        if node.kind in ("split", "slice") and node.attrs["dim"] == node.inputs[0].rank - 1:
            return self._row_wise(node, {**node.attrs, "dim": 3})
        return False

    def _multiply(self, node: Node) -> bool:
        rows, weight = node.inputs
        weight, layout = expert_weight(self.upstream, weight)
        x = self.slots[rows]
        shape = (*x.shape[:-1], node.output.shape[-1])
        self.slots[node.output] = self._step(
            "expert_matmul", [x, weight], shape, weight_layout=layout
        )
        return True

    def _row_wise(self, node: Node, attrs: dict[str, object]) -> bool:
        self.nodes.append(row_wise(node, self.slots, attrs))
        return True

    def _combine(self, node: Node, rows: Value) -> Node | None:
        if list(node.attrs["dims"]) != [0] or rows.shape[0] != self.routed.experts:
            return None
        ones = Value("", self.routed.index.shape, node.output.dtype)
        self.nodes.append(Node("full", [], [ones], {"value": 1}, node.module))
        inputs = [self.slots[rows], self.routed.index, ones]
        shape = (*self.routed.tokens.shape[:2], node.output.shape[-1])
        combined = self._step("moe_combine", inputs, shape, capacity_factor=1.0)
        self._step("reshape", [combined], node.output.shape)
        return node

    def _step(
        self, kind: str, inputs: list[Value], shape: tuple[int, ...], **attrs: object
    ) -> Value:
        result = Value("", shape, inputs[0].dtype)
        self.nodes.append(Node(kind, inputs, [result], attrs, self.product.module))
        return result
