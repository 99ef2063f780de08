"""The inference graph: forward only, without loss, over a key-value cache.

    no loss      ops that depend on labels are removed; tensors that they read become outputs
    no dropout   readers of its result read its input
    experts      sequences that are too short for slots of their own share them
    cache        key -> kv_update(cache, key, place) -> attention, the same for the value

One captured training graph serves both phases of inference. A sequence as long as the cache is
prefill; a sequence of 1 is decode, one token for every sequence of the batch.

The cached tensors follow from the graph: the keys and values of causal attention. If these are
joined or repeated of parts (`concat`, `expand`), each part is cached once. Attention over latents
[b, 1, s, l] with a rotary part [b, 1, s, r] (DeepSeek-V2, section 2.1, with the products absorbed)
thus caches l + r numbers a position instead of all heads.

A cache is a tensor of role `cache`. It rests between steps like a parameter that is not trained, in
any layout at least as fine as its reader needs; its rows are written in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meshwright.schema import Graph, Op, Setup, SetupError, Tensor
from meshwright.schema.sizes import SYMBOL, size_value
from meshwright_solver.problem.pooled_experts import with_pooled_experts

CONTEXT = "context"
PLACE = "place in the cache"
_WRITE = "kv_update"


def for_inference(graph: Graph, setup: Setup) -> Graph:
    """The inference graph, or `graph` itself in training; it keeps the id of `graph`.

    The function is idempotent. Raises SetupError where no attention can read the setup's cache.
    """
    if setup.phase == "training":
        return graph
    inference = with_pooled_experts(_without_dropout(_without_loss(graph)), setup)
    if setup.cache is not None and all(tensor.role != "cache" for tensor in inference.tensors):
        inference = _CacheWriter(inference, setup).run()
    if inference is not graph:
        inference.__dict__["_id"] = graph.id
    return inference


def _without_loss(graph: Graph) -> Graph:
    of_labels = {tensor.name for tensor in graph.tensors if tensor.role == "label"}
    ops, dropped = [], []
    for op in graph.topological_order():
        if of_labels.isdisjoint(op.inputs):
            ops.append(op)
        else:
            dropped.append(op)
            of_labels.update(op.outputs)
    output_names = {name for op in ops for name in op.outputs}
    outputs = [name for name in graph.outputs if name not in of_labels]
    outputs += [name for op in dropped for name in op.inputs if name in output_names]
    if not dropped or not outputs:
        return graph
    return graph.model_copy(
        update={
            "tensors": tuple(t for t in graph.tensors if t.name not in of_labels),
            "ops": tuple(ops),
            "outputs": tuple(dict.fromkeys(outputs)),
            "loss": None,
        }
    )


def _without_dropout(graph: Graph) -> Graph:
    same: dict[str, str] = {}
    ops = []
    gone: set[str] = set()
    for op in graph.topological_order():
        if op.kind == "dropout":
            same[op.outputs[0]] = same.get(op.inputs[0], op.inputs[0])
            gone.update(op.outputs)
        else:
            ops.append(_with_inputs(op, same))
    if not gone or not gone.isdisjoint(graph.outputs):
        return graph
    tensors = tuple(tensor for tensor in graph.tensors if tensor.name not in gone)
    return graph.model_copy(update={"tensors": tensors, "ops": tuple(ops)})


def _with_inputs(op: Op, names: Mapping[str, str]) -> Op:
    if names.keys().isdisjoint(op.inputs):
        return op
    return op.model_copy(update={"inputs": tuple([names.get(name, name) for name in op.inputs])})


@dataclass
class _CacheWriter:
    """Rewriter of a graph whose causal attention reads caches.

    cached: keys and values of attention -> the tensors over the context that replace them. symbol:
    the sequence of the current attention op; whole: whether it is all of the context.
    """

    graph: Graph
    setup: Setup
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    producers: dict[str, Op] = field(default_factory=dict)
    cached: dict[str, str] = field(default_factory=dict)
    symbol: str = ""
    whole: bool = False

    def run(self) -> Graph:
        assert self.setup.cache is not None
        self.tensors = {tensor.name: tensor for tensor in self.graph.tensors}
        for op in self.graph.topological_order():
            self.producers.update(dict.fromkeys(op.outputs, op))
            self.ops.append(self._with_cache(op) if _is_causal(op) else op)
        if not self.cached:
            raise SetupError(
                "the graph has no causal attention op without a mask that a cache could serve; "
                "capture the model with scaled_dot_product_attention",
                pointer="/cache",
            )
        place = Tensor(name=PLACE, shape=(1,), dtype="int64", role="constant")
        return self.graph.model_copy(
            update={
                "symbols": {**self.graph.symbols, CONTEXT: self.setup.cache.context},
                "tensors": (*self.tensors.values(), place),
                "ops": tuple(self.ops),
            }
        )

    def _with_cache(self, op: Op) -> Op:
        query, key, value = op.inputs
        self.symbol = self._sequence(op)
        self.whole = self._is_prefill(op)
        read = (query, self._context_value(key), self._context_value(value))
        return op.model_copy(update={"inputs": read, "attrs": {**op.attrs, "causal": self.whole}})

    def _sequence(self, op: Op) -> str:
        """The symbol of the key positions."""
        size = self.tensors[op.inputs[1]].shape[2]
        if not isinstance(size, str) or SYMBOL.match(size) is None:
            raise SetupError(
                f"a cache needs a graph with a symbol for its sequence; op {op.name!r} has keys of "
                f"{size} positions",
                pointer="/cache",
            )
        return size

    def _is_prefill(self, op: Op) -> bool:
        """Whether the sequence is all of the context (prefill), so that the causal mask stays.

        A shorter sequence has no mask, though row i of s sees s - 1 - i positions less than the
        last.
        """
        assert self.setup.cache is not None
        rows = size_value(self.symbol, {**self.graph.symbols, **self.setup.symbols})
        context = self.setup.cache.context
        if rows > context:
            raise SetupError(
                f"the cache has room for a context of {context}, op {op.name!r} reads {rows} "
                f"positions in one step. Use a longer context or a smaller {self.symbol!r}",
                pointer="/cache/context",
            )
        return rows == context

    def _context_value(self, name: str) -> str:
        """A key or value over the whole context: a cache, or an op over cached parts."""
        if name in self.cached:
            return self.cached[name]
        producer = self.producers.get(name)
        parts = _parts(producer, self.tensors)
        if producer is None or not parts:
            return self._cache_value(name)
        inputs = [self._context_value(part) if part in parts else part for part in producer.inputs]
        self.cached[name] = self._add_context_tensor(name)
        self.ops.append(
            Op(
                name=f"{producer.name} (cached)",
                kind=producer.kind,
                inputs=tuple(inputs),
                outputs=(self.cached[name],),
                attrs=self._context_attrs(producer),
                module=producer.module,
                rule=producer.rule,
            )
        )
        return self.cached[name]

    def _context_attrs(self, op: Op) -> dict[str, object]:
        """Attributes of an op over the context; caches that it joins lie side by side in memory."""
        attrs = {key: self._over_context(attr) for key, attr in op.attrs.items()}
        return attrs | ({"in_place": True} if op.kind == "concat" else {})

    def _cache_value(self, name: str) -> str:
        assert self.setup.cache is not None
        tensor = self.tensors[name]
        dtype = self.setup.cache.dtype or tensor.dtype
        cached_name = self.cached[name] = self._add_context_tensor(name, dtype)
        cache = self.tensors[cached_name].model_copy(
            update={"name": f"{name} (cache)", "role": "cache", "trainable": False}
        )
        self.tensors[cache.name] = cache
        producer = self.producers.get(name)
        self.ops.append(
            Op(
                name=f"{name} (cache)",
                kind=_WRITE,
                inputs=(cache.name, name, PLACE),
                outputs=(cached_name,),
                attrs={"whole": True} if self.whole else {},
                module=producer.module if producer is not None else "",
            )
        )
        return cached_name

    def _add_context_tensor(self, name: str, dtype: str | None = None) -> str:
        """Add a tensor like this one over the context, and return its name."""
        tensor = self.tensors[name]
        shape = tuple([self._over_context(size) for size in tensor.shape])
        longer = f"{name} (cached)"
        changes = {"name": longer, "shape": shape, "role": "activation"}
        self.tensors[longer] = tensor.model_copy(update=changes | {"dtype": dtype or tensor.dtype})
        return longer

    def _over_context(self, value: object) -> object:
        if isinstance(value, str):
            return re.sub(rf"\b{self.symbol}\b", CONTEXT, value)
        if isinstance(value, list):
            return [self._over_context(item) for item in value]
        return value


def _is_causal(op: Op) -> bool:
    if op.kind != "attention" or op.attrs.get("causal") is not True:
        return False
    # a cache holds all positions, of which a window or a chunk reads a part
    if "window" in op.attrs or "chunk" in op.attrs:
        return False
    return len(op.inputs) - bool(op.attrs.get("sinks")) == 3


def _parts(op: Op | None, tensors: Mapping[str, Tensor]) -> Iterable[str]:
    """Tensors that an op joins or repeats into keys or values [b, h, s, d], on dims except s."""
    if op is None or any(len(tensors[name].shape) != 4 for name in op.inputs):
        return ()
    if op.kind == "concat" and op.attrs.get("dim") in (1, 3, -1, -3):
        return op.inputs
    if op.kind == "expand" and tensors[op.inputs[0]].shape[1] == 1:
        return op.inputs[:1]
    return ()
