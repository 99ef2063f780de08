"""Recognition of mixtures of experts: sorting and indexing become dispatch and combine.

Captured programs sort all (token, choice) pairs by expert, gather their rows, multiply group by
group, and scatter the rows back. The assignment of rows to experts depends on data, which a plan
cannot express. In the canonical form, every expert has the same number of slots per sequence:

    moe_dispatch   x[b,s,h], topk_index[b,s,k]                      -> [e,b,c,h]    c = s*k/e
    expert_matmul  x[e,b,c,h], w[e,f,h]                             -> [e,b,c,f]
    moe_combine    y[e,b,c,h], topk_index[b,s,k], topk_weight[b,s,k] -> [b,s,h]

Both are equal where no expert exceeds its slots. The attr `capacity_factor` scales c. Where s*k
does not divide by e, c is rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.capture.passes.expert_slots import expert_weight, row_wise
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.slot_count import slot_count
from meshwright.schema.sizes import evaluate

_GROUPED_MATMULS = frozenset(
    {"aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"}
)
# element-wise kinds without operands besides rows
_ROW_WISE = frozenset(
    {
        *("silu", "gelu", "relu", "sigmoid", "tanh", "erf", "softplus", "leaky_relu", "elu"),
        *("mish", "hardswish", "mul", "add", "sub", "div", "pow", "exp", "log", "sqrt", "rsqrt"),
        *("abs", "neg", "maximum", "minimum", "cast", "clamp"),
    }
)


def recognize_mixture(program: Program) -> None:
    """Replace each sorted group of expert matmuls by its canonical form."""
    upstream = Upstream(program)
    positions = {node: place for place, node in enumerate(program.nodes)}
    readers = program.readers()
    additions: dict[Node, list[Node]] = {}
    substitutes: dict[Value, Value] = {}
    for node in program.nodes:
        if node.kind != "sort":
            continue
        region = _Region.at(node, upstream, readers, program)
        if region is None:
            continue
        later = program.nodes[positions[node] :]
        last = region.rewrite(later)
        if last is not None:
            additions[last] = region.nodes
            substitutes[last.output] = region.result
    program.insert_before(additions)
    program.replace(substitutes)


@dataclass
class _Region:
    """The experts of one layer during the rewrite; `slots` maps sorted rows to slots."""

    upstream: Upstream
    order: Value
    permutation: Value
    tokens: Value
    index: Value
    experts: int
    capacity: int
    weight: Value | None = None
    slots: dict[Value, Value] = field(default_factory=dict)
    restored: set[Value] = field(default_factory=set)
    nodes: list[Node] = field(default_factory=list)
    module: str = ""

    @property
    def result(self) -> Value:
        return self.nodes[-1].output

    @classmethod
    def at(
        cls,
        sort: Node,
        upstream: Upstream,
        readers: dict[Value, list[Node]],
        program: Program,
    ) -> _Region | None:
        """The region that starts at this sort, or None for another use of sort."""
        index = upstream.through(sort.inputs[0], "reshape")
        if index.rank not in (2, 3) or sort.inputs[0].rank != 1:
            return None
        choices = index.shape[-1]
        permutation = sort.outputs[1]
        for gather in (n for r in readers.get(permutation, ()) for n in readers.get(r.output, ())):
            if gather.kind != "index" or gather.inputs[0].rank != 2:
                continue
            tokens = upstream.through(gather.inputs[0], "reshape")
            if tokens.rank != 3 or index.shape[:-1] not in _leading_dims(tokens):
                continue
            batch, length, _ = tokens.shape
            matmul = next(
                (n for n in _after(gather.output, readers) if n.kind in _GROUPED_MATMULS), None
            )
            if matmul is None:
                continue
            experts = matmul.inputs[1].shape[0]
            capacity = slots_of_an_expert(program, length, choices, experts)
            region = cls(upstream, sort.outputs[0], permutation, tokens, index, experts, capacity)
            region.module = gather.module
            region.index = region._three_dims(index)
            region.slots[gather.output] = region._add(
                "moe_dispatch",
                [tokens, region.index],
                (experts, batch, capacity, tokens.shape[-1]),
                gather.output,
                capacity_factor=1.0,
            )
            return region
        return None

    def rewrite(self, nodes: list[Node]) -> Node | None:
        """Rewrite up to the sum over choices; returns that node, or None for an unknown pattern."""
        for node in nodes:
            rows = [value for value in node.inputs if value in self.slots]
            if not rows or node.output in self.slots:
                continue
            if node.kind == "sum" and rows[0] in self.restored:
                return self._combine(node, rows[0])
            if not self._follow(node, rows):
                return None
        return None

    def _follow(self, node: Node, rows: list[Value]) -> bool:
        first = rows[0]
        if node.kind in _GROUPED_MATMULS and node.inputs[0] is first:
            return self._multiply(node, first)
        if node.kind == "mul" and len(rows) == 1 and self._is_weighting(node, first):
            self.slots[node.output] = self.slots[first]
            return True
        if node.kind == "index" and self._is_inverse(node.inputs[1]):
            self.slots[node.output] = self.slots[first]
            self.restored.add(node.output)
            return True
        if node.kind == "reshape" and first in self.restored:
            self.slots[node.output] = self.slots[first]
            self.restored.add(node.output)
            return True
        if node.kind == "cast" and self.weight is not None:
            self.slots[node.output] = self.slots[first]
            return True
        if node.kind in _ROW_WISE and all(v in self.slots for v in node.inputs):
            return self._row_wise(node, dict(node.attrs))
        if node.kind in ("split", "slice") and node.attrs["dim"] == 1:
            return self._row_wise(node, {**node.attrs, "dim": 3})
        if node.kind == "add" and len(rows) == 1 and len(node.inputs) == 2:
            return self._add_bias(node, first)
        return False

    def _add_bias(self, node: Node, rows: Value) -> bool:
        """Match rows + bias[expert of each row]; unused slots are never read."""
        other = next(value for value in node.inputs if value is not rows)
        gather = self.upstream.producer(other, "index")
        if gather is None or not self._is_expert_index(gather.inputs[1]):
            return False
        bias, x = gather.inputs[0], self.slots[rows]
        reshaped = self._add("reshape", [bias], (bias.shape[0], 1, 1, bias.shape[1]), bias)
        self.slots[node.output] = self._add("add", [x, reshaped], x.shape, node.output)
        return True

    def _is_expert_index(self, index: Value) -> bool:
        """Whether the index is the expert of each sorted row, possibly clamped."""
        return self.upstream.through(index, "clamp") is self.order

    def _multiply(self, node: Node, rows: Value) -> bool:
        weight, layout = expert_weight(self.upstream, node.inputs[1])
        x = self.slots[rows]
        shape = (*x.shape[:-1], node.output.shape[-1])
        self.slots[node.output] = self._add(
            "expert_matmul", [x, weight], shape, node.output, weight_layout=layout
        )
        return True

    def _row_wise(self, node: Node, attrs: dict[str, object]) -> bool:
        self.nodes.append(row_wise(node, self.slots, attrs))
        return True

    def _is_weighting(self, node: Node, rows: Value) -> bool:
        """Match rows * (topk_weight in sorted order)[:, None]."""
        other = next((v for v in node.inputs if v is not rows), None)
        gather = other and self.upstream.producer(self.upstream.through(other, "reshape"), "index")
        if not gather or gather.inputs[1] is not self.permutation:
            return False
        weight = self.upstream.through(gather.inputs[0], "reshape")
        choices = self.index.shape[-1]
        if weight.shape not in [(*lead, choices) for lead in _leading_dims(self.tokens)]:
            return False
        self.weight = self._three_dims(weight)
        return True

    def _three_dims(self, value: Value) -> Value:
        """A value [b*s, k] as [b, s, k]; a router's op can keep its tokens in one dim."""
        if value.rank == 3:
            return value
        return self._add("reshape", [value], (*self.tokens.shape[:2], value.shape[-1]), value)

    def _is_inverse(self, index: Value) -> bool:
        """Whether the index is the inverse of the permutation."""
        scatter = self.upstream.producer(index, "aten.index_put.default")
        return scatter is not None and self.permutation in scatter.inputs[1:]

    def _combine(self, node: Node, rows: Value) -> Node | None:
        if self.weight is None or list(node.attrs["dims"]) != [1] or rows.rank != 3:
            return None
        batch, length, _ = self.index.shape
        inputs = [self.slots[rows], self.index, self.weight]
        shape = (batch, length, node.output.shape[-1])
        combined = self._add("moe_combine", inputs, shape, node.output, capacity_factor=1.0)
        self._add("reshape", [combined], node.output.shape, node.output)
        return node

    def _add(
        self,
        kind: str,
        inputs: list[Value],
        shape: tuple[int, ...],
        like: Value,
        **attrs: object,
    ) -> Value:
        result = Value("", shape, like.dtype)
        self.nodes.append(Node(kind, inputs, [result], attrs, self.module))
        return result


def _leading_dims(tokens: Value) -> tuple[tuple[int, ...], ...]:
    """The leading dims of an index of the experts of tokens [b, s, h]."""
    batch, length, _ = tokens.shape
    return (batch, length), (batch * length,)


def _after(value: Value, readers: dict[Value, list[Node]]) -> list[Node]:
    """The nodes that read the value, directly or after a cast."""
    direct = readers.get(value, [])
    casts = [n.output for n in direct if n.kind == "cast"]
    return [*direct, *(n for cast in casts for n in readers.get(cast, []))]


def slots_of_an_expert(program: Program, length: int, choices: int, experts: int) -> int:
    """The slots of an expert per sequence, at the traced length.

    Slots that do not follow from the sequence without a remainder are rounded up, with a note.
    """
    if choices % experts == 0:
        return length * choices // experts
    witness = program.witness
    tokens = witness.size(length)
    count = slot_count(tokens, choices, experts, witness.values)
    if isinstance(count, int):
        return count
    pairs = choices * evaluate(tokens, witness.values) if witness.values else 0
    if pairs % experts:
        note = (
            f"{experts} experts, {choices} of them for each token: "
            f"{pairs / experts:.1f} slots of an expert per sequence are rounded up to "
            f"{evaluate(count, witness.values)}"
        )
        program.notes += [note] if note not in program.notes else []
    return witness.stand_in(count)
