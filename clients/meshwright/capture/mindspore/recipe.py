"""`pkg.module:factory` of a MindSpore network -> Graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindspore import nn

from meshwright.capture.mindspore.compiled import compile_network
from meshwright.capture.mindspore.reader import Reader
from meshwright.capture.named import named_function
from meshwright.capture.witness import BATCH_WITNESS, Witness
from meshwright.schema import Graph, GraphError


@dataclass(frozen=True)
class MindSporeRecipe:
    """What a factory returns: how to make a network and the tensors that it is called with.

    network, inputs: called with a size for each symbol. The network's result is the loss, and its
    tensors may be without data (`Tensor(shape=..., dtype=...)`).
    symbols: the sizes that stay symbolic, with their usual values; `batch` is one of them.
    limits: the largest size a symbol may be traced at.
    """

    name: str
    network: Callable[[Mapping[str, int]], nn.Cell]
    inputs: Callable[[Mapping[str, int]], tuple[Any, ...]]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)


def capture_mindspore(recipe: MindSporeRecipe | str, *, batch: int | None = None) -> Graph:
    """The graph of one forward pass as MindSpore compiles it for one device, op for op.

    An op's name is MindSpore's full name, its module the path of its primitive. Strategies that
    primitives have (`.shard()`) are notes that begin with `pin `, to be given as `--pin`.
    """
    found = _made(recipe) if isinstance(recipe, str) else recipe
    if batch is not None and "batch" not in found.symbols:
        raise GraphError(f"{found.name}: the recipe has no symbol 'batch' for {batch} to stand for")
    symbols = {**found.symbols, **({} if batch is None else {"batch": batch})}
    small = found.network(dict.fromkeys(symbols, 1))
    own = [size for parameter in small.get_parameters() for size in parameter.shape]
    limits = {name: found.limits.get(name, BATCH_WITNESS) for name in symbols}
    witness = Witness.choose(limits, own)
    network = found.network(witness.primes)
    network.set_train()
    trainable = {own.name: bool(own.requires_grad) for own in network.get_parameters()}
    compiled = compile_network(network, found.inputs(witness.primes))
    return Reader(compiled, trainable, witness).graph(found.name, symbols)


def _made(spec: str) -> MindSporeRecipe:
    made = named_function(spec)()
    if not isinstance(made, MindSporeRecipe):
        raise GraphError(
            f"{spec} returned a {type(made).__name__}; it must return a "
            "meshwright.capture.MindSporeRecipe"
        )
    return made
