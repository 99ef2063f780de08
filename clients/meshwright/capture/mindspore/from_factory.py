"""Capture of a MindSpore network from a factory `pkg.module:factory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindspore import nn

from meshwright.capture.import_by_name import named_function
from meshwright.capture.mindspore.compiled import compile_network
from meshwright.capture.mindspore.reader import MindSporeReader
from meshwright.capture.symbol_values import symbol_values
from meshwright.capture.symbolic_sizes import BATCH_WITNESS, Witness
from meshwright.schema import Graph, GraphError


@dataclass(frozen=True)
class MindSporeRecipe:
    """The result of a factory: functions that create a network and its input tensors.

    network, inputs: called with a size for each symbol. The network returns the loss; input tensors
    may have no data (`Tensor(shape=..., dtype=...)`).
    symbols: the symbolic sizes with their usual values; `batch` is one of them.
    limits: the largest traced size of a symbol.
    """

    name: str
    network: Callable[[Mapping[str, int]], nn.Cell]
    inputs: Callable[[Mapping[str, int]], tuple[Any, ...]]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)


def capture_mindspore(
    recipe: MindSporeRecipe | str,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of one forward pass that MindSpore compiles for one device, one op per operator.

    An op's name is MindSpore's full name, and its module is the path of its primitive. Strategies
    of primitives (`.shard()`) become notes that start with `pin `, for the option `--pin`.

    sizes: values of the recipe's symbols, `batch` among them.
    """
    loaded = _load_recipe(recipe) if isinstance(recipe, str) else recipe
    symbols = symbol_values(loaded.symbols, batch=batch, sizes=sizes, recipe=loaded.name)
    small = loaded.network(dict.fromkeys(symbols, 1))
    dims = [size for parameter in small.get_parameters() for size in parameter.shape]
    limits = {name: loaded.limits.get(name, BATCH_WITNESS) for name in symbols}
    witness = Witness.choose(limits, dims)
    network = loaded.network(witness.primes)
    network.set_train()
    trainable = {
        parameter.name: bool(parameter.requires_grad) for parameter in network.get_parameters()
    }
    compiled = compile_network(network, loaded.inputs(witness.primes))
    return MindSporeReader(compiled, trainable, witness).graph(loaded.name, symbols)


def _load_recipe(spec: str) -> MindSporeRecipe:
    recipe = named_function(spec)()
    if not isinstance(recipe, MindSporeRecipe):
        raise GraphError(
            f"{spec} returned a {type(recipe).__name__}; it must return a "
            "meshwright.capture.MindSporeRecipe"
        )
    return recipe
