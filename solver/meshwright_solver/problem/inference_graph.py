"""The graph that inference runs: forward only, without its loss, over a cache of keys and values.

    without loss   what depends on labels is left out, what it read of the rest is an output
    no dropout     its result is its input
    cached         key -> kv_update(cache, key, place) -> attention, and so the value

One captured training graph so stands for both phases of serving: with its sequence as long as the
cache a prompt is read, with a sequence of 1 one token is added to every sequence of the batch.

What is cached follows from the graph. It is what causal attention reads as keys and values or,
where that is joined or repeated of parts (`concat`, `expand`), these parts, each once: of attention
over latents [b, 1, s, l] with a rotary part [b, 1, s, r] (DeepSeek-V2, section 2.1, with the
products absorbed) l + r numbers a position, and not the heads that they stand for.

A cache is a tensor of role `cache`: it rests between steps like a parameter that is not trained, in
any layout at least as fine as what its reader needs, and its rows are written in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meshwright.schema import Graph, Op, Setup, SetupError, Tensor
from meshwright.schema.sizes import SYMBOL, size_value

CONTEXT = "context"
PLACE = "place in the cache"
_WRITE = "kv_update"


def for_inference(graph: Graph, setup: Setup) -> Graph:
    """The graph as the setup runs it: itself in training; it keeps the id of the graph as given.

    What is made so is made no other by a second call. Raises SetupError where no attention can read
    the cache that the setup asks for.
    """
    if setup.phase == "training":
        return graph
    found = _without_dropout(_without_loss(graph))
    if setup.cache is not None and all(tensor.role != "cache" for tensor in found.tensors):
        found = _Caching(found, setup).run()
    if found is not graph:
        found.__dict__["_id"] = graph.id
    return found


def _without_loss(graph: Graph) -> Graph:
    of_labels = {tensor.name for tensor in graph.tensors if tensor.role == "label"}
    kept, dropped = [], []
    for op in graph.topological_order():
        if of_labels.isdisjoint(op.inputs):
            kept.append(op)
        else:
            dropped.append(op)
            of_labels.update(op.outputs)
    made = {name for op in kept for name in op.outputs}
    outputs = [name for name in graph.outputs if name not in of_labels]
    outputs += [name for op in dropped for name in op.inputs if name in made]
    if not dropped or not outputs:
        return graph
    return graph.model_copy(
        update={
            "tensors": tuple(t for t in graph.tensors if t.name not in of_labels),
            "ops": tuple(kept),
            "outputs": tuple(dict.fromkeys(outputs)),
            "loss": None,
        }
    )


def _without_dropout(graph: Graph) -> Graph:
    same: dict[str, str] = {}
    kept = []
    gone: set[str] = set()
    for op in graph.topological_order():
        if op.kind == "dropout":
            same[op.outputs[0]] = same.get(op.inputs[0], op.inputs[0])
            gone.update(op.outputs)
        else:
            kept.append(_reading(op, same))
    if not gone or not gone.isdisjoint(graph.outputs):
        return graph
    tensors = tuple(tensor for tensor in graph.tensors if tensor.name not in gone)
    return graph.model_copy(update={"tensors": tensors, "ops": tuple(kept)})


def _reading(op: Op, names: Mapping[str, str]) -> Op:
    if names.keys().isdisjoint(op.inputs):
        return op
    return op.model_copy(update={"inputs": tuple([names.get(name, name) for name in op.inputs])})


@dataclass
class _Caching:
    """cached: what attention read before -> what it reads of the cache.

    symbol, whole: of the attention at hand, its sequence and whether that is all of the context.
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
            self.ops.append(self._reading_cache(op) if _is_causal(op) else op)
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

    def _reading_cache(self, op: Op) -> Op:
        query, key, value = op.inputs
        self.symbol = self._sequence(op)
        self.whole = self._reads_a_prompt(op)
        read = (query, self._read(key), self._read(value))
        return op.model_copy(update={"inputs": read, "attrs": {**op.attrs, "causal": self.whole}})

    def _sequence(self, op: Op) -> str:
        """The symbol of the keys' positions."""
        said = self.tensors[op.inputs[1]].shape[2]
        if not isinstance(said, str) or SYMBOL.match(said) is None:
            raise SetupError(
                f"a cache needs a graph with a symbol for its sequence; op {op.name!r} has keys of "
                f"{said} positions",
                pointer="/cache",
            )
        return said

    def _reads_a_prompt(self, op: Op) -> bool:
        """Whether the sequence is all of the context, so that the causal mask is a triangle.

        Shorter ones are taken to see all of it: of s rows the last does, the first s - 1 less.
        """
        assert self.setup.cache is not None
        rows = size_value(self.symbol, {**self.graph.symbols, **self.setup.symbols})
        context = self.setup.cache.context
        if rows > context:
            raise SetupError(
                f"the cache has room for a context of {context}, op {op.name!r} reads {rows} "
                f"positions in one step; a longer context or a smaller {self.symbol!r} would do",
                pointer="/cache/context",
            )
        return rows == context

    def _read(self, name: str) -> str:
        """What stands for a key or value over the whole context: cached, or made of what is."""
        if name in self.cached:
            return self.cached[name]
        made = self.producers.get(name)
        parts = _parts(made, self.tensors)
        if made is None or not parts:
            return self._written(name)
        inputs = [self._read(part) if part in parts else part for part in made.inputs]
        self.cached[name] = self._longer(name)
        self.ops.append(
            Op(
                name=f"{made.name} (cached)",
                kind=made.kind,
                inputs=tuple(inputs),
                outputs=(self.cached[name],),
                attrs=self._joined_attrs(made),
                module=made.module,
                rule=made.rule,
            )
        )
        return self.cached[name]

    def _joined_attrs(self, op: Op) -> dict[str, object]:
        """Caches that attention reads as one are kept side by side."""
        attrs = {key: self._over_context(given) for key, given in op.attrs.items()}
        return attrs | ({"in_place": True} if op.kind == "concat" else {})

    def _written(self, name: str) -> str:
        assert self.setup.cache is not None
        own = self.tensors[name]
        dtype = self.setup.cache.dtype or own.dtype
        found = self.cached[name] = self._longer(name, dtype)
        cache = self.tensors[found].model_copy(
            update={"name": f"{name} (cache)", "role": "cache", "trainable": False}
        )
        self.tensors[cache.name] = cache
        made = self.producers.get(name)
        self.ops.append(
            Op(
                name=f"{name} (cache)",
                kind=_WRITE,
                inputs=(cache.name, name, PLACE),
                outputs=(found,),
                attrs={"whole": True} if self.whole else {},
                module=made.module if made is not None else "",
            )
        )
        return found

    def _longer(self, name: str, dtype: str | None = None) -> str:
        """A new tensor like this one, over the context."""
        own = self.tensors[name]
        shape = tuple([self._over_context(size) for size in own.shape])
        longer = f"{name} (cached)"
        changes = {"name": longer, "shape": shape, "role": "activation"}
        self.tensors[longer] = own.model_copy(update=changes | {"dtype": dtype or own.dtype})
        return longer

    def _over_context(self, said: object) -> object:
        if isinstance(said, str):
            return re.sub(rf"\b{self.symbol}\b", CONTEXT, said)
        if isinstance(said, list):
            return [self._over_context(own) for own in said]
        return said


def _is_causal(op: Op) -> bool:
    if op.kind != "attention" or op.attrs.get("causal") is not True:
        return False
    # a cache holds all positions, of which a window or a chunk reads a part
    if "window" in op.attrs or "chunk" in op.attrs:
        return False
    return len(op.inputs) - bool(op.attrs.get("sinks")) == 3


def _parts(op: Op | None, tensors: Mapping[str, Tensor]) -> Iterable[str]:
    """What keys or values [b, h, s, d] are joined or repeated of, along other dims than s."""
    if op is None or any(len(tensors[name].shape) != 4 for name in op.inputs):
        return ()
    if op.kind == "concat" and op.attrs.get("dim") in (1, 3, -1, -3):
        return op.inputs
    if op.kind == "expand" and tensors[op.inputs[0]].shape[1] == 1:
        return op.inputs[:1]
    return ()
