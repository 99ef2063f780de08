"""Capture of a JAX function from a factory `pkg.module:factory`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from meshwright.capture.finalize import finalize_program, is_label
from meshwright.capture.import_by_name import named_function
from meshwright.capture.jax.annotations import pins_of
from meshwright.capture.jax.broadcasts import drop_broadcasts
from meshwright.capture.jax.decomposed_ops import recognize_means, recognize_softmax
from meshwright.capture.jax.pytree import named_leaves
from meshwright.capture.jax.reader import JaxprReader
from meshwright.capture.passes import TORCH_FREE
from meshwright.capture.program import Value
from meshwright.capture.symbol_values import symbol_values
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError

PASSES = (drop_broadcasts, recognize_means, recognize_softmax, *TORCH_FREE)
# chosen: jax divides means in float32, which represents products of two witnesses exactly
_LARGEST_WITNESS = 4093


@dataclass(frozen=True)
class JaxRecipe:
    """The result of a factory: a function that returns the loss, and its arguments.

    arguments: called with a size for each symbol; returns the function's arguments, trees of
    `jax.ShapeDtypeStruct`. The first argument holds the parameters. A struct with a NamedSharding
    is an annotation like `with_sharding_constraint`.
    symbols: the symbolic sizes with their usual values; `batch` is one of them.
    limits: the largest traced size of a symbol.
    """

    name: str
    function: Callable[..., Any]
    arguments: Callable[[Mapping[str, int]], tuple[Any, ...]]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)


def capture_jax(
    recipe: JaxRecipe | str,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of one forward pass; a scalar first result is the loss.

    Capture reads the jaxpr before lowering, independent of a platform. Sharding annotations become
    notes that start with `pin `, for the option `--pin`. sizes: values of the recipe's symbols,
    `batch` among them.
    """
    loaded = _load_recipe(recipe) if isinstance(recipe, str) else recipe
    symbols = symbol_values(loaded.symbols, batch=batch, sizes=sizes, recipe=loaded.name)
    small = loaded.arguments(dict.fromkeys(symbols, 1))
    dims = [size for leaf in jax.tree.leaves(small) for size in leaf.shape]
    limits = {name: loaded.limits.get(name, _LARGEST_WITNESS) for name in symbols}
    witness = Witness.choose(limits, dims)
    arguments = loaded.arguments(witness.primes)
    reader, outputs = read_function(loaded.function, arguments, witness, loaded.name)
    program = reader.program
    if not outputs:
        raise GraphError(f"{loaded.name} returns nothing. Return the loss")
    first = outputs[0]
    program.loss = first if first.shape == () and "float" in first.dtype else None
    program.outputs = [first] if program.loss else outputs
    graph = finalize_program(program, PASSES, name=loaded.name, symbols=symbols)
    pins = tuple(f"pin {pin}" for pin in pins_of(program, reader.annotated))
    return graph.model_copy(update={"notes": (*graph.notes, *pins)}) if pins else graph


def read_function(
    function: Callable[..., Any], arguments: Sequence[Any], witness: Witness, name: str
) -> tuple[JaxprReader, list[Value]]:
    """Trace a function; returns the reader and the results.

    The first of `arguments` holds the parameters. Raises GraphError with `name` if tracing fails.
    """
    try:
        closed = jax.make_jaxpr(function)(*arguments)
    except Exception as failure:  # the function may raise any exception while it is traced
        message = " ".join(str(failure).split())[:400]
        raise GraphError(f"cannot trace {name}: {type(failure).__name__}: {message}") from failure
    reader = JaxprReader(witness)
    argument_names = ["", *list(inspect.signature(function).parameters)[1:]]
    inputs = []
    for argument_name, argument in zip(argument_names, arguments, strict=False):
        for leaf in named_leaves(argument, argument_name):
            role = "parameter" if not argument_name else "label" if is_label(leaf.name) else "input"
            inputs.append(reader.source(leaf.name, leaf.value, role))
    return reader, reader.read(closed.jaxpr, closed.consts, inputs, "")


def _load_recipe(spec: str) -> JaxRecipe:
    recipe = named_function(spec)()
    if not isinstance(recipe, JaxRecipe):
        raise GraphError(
            f"{spec} returned a {type(recipe).__name__}; it must return a "
            "meshwright.capture.JaxRecipe"
        )
    return recipe


__all__ = ["JaxRecipe", "capture_jax"]
