"""`pkg.module:factory` of a JAX function -> Graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from meshwright.capture.finish import finished, is_label
from meshwright.capture.jax.annotations import pins_of
from meshwright.capture.jax.broadcasts import drop_broadcasts
from meshwright.capture.jax.reader import Reader
from meshwright.capture.named import named_function
from meshwright.capture.passes import TORCH_FREE
from meshwright.capture.witness import Witness
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError

# chosen: the product of two still is a whole number in float32, by which jax divides a mean
_LARGEST_WITNESS = 4093


@dataclass(frozen=True)
class JaxRecipe:
    """What a factory returns: a function that gives the loss, and how to feed it.

    arguments: called with a size for each symbol; gives the function's arguments, trees of
    `jax.ShapeDtypeStruct`. The first argument holds the parameters. A struct with a NamedSharding
    is an annotation like `with_sharding_constraint`.
    symbols: the sizes that stay symbolic, with their usual values; `batch` is one of them.
    limits: the largest size a symbol may be traced at.
    """

    name: str
    function: Callable[..., Any]
    arguments: Callable[[Mapping[str, int]], tuple[Any, ...]]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)


def capture_jax(recipe: JaxRecipe | str, *, batch: int | None = None) -> Graph:
    """The graph of one forward pass, its jaxpr rewritten; a first result without dims is the loss.

    Read before anything is lowered, so for no platform in particular. Annotations of shardings are
    notes that begin with `pin `, to be given as `--pin`.
    """
    found = _made(recipe) if isinstance(recipe, str) else recipe
    if batch is not None and "batch" not in found.symbols:
        raise GraphError(f"{found.name}: the recipe has no symbol 'batch' for {batch} to stand for")
    symbols = {**found.symbols, **({} if batch is None else {"batch": batch})}
    small = found.arguments(dict.fromkeys(symbols, 1))
    own = [size for leaf in jax.tree.leaves(small) for size in leaf.shape]
    limits = {name: found.limits.get(name, _LARGEST_WITNESS) for name in symbols}
    witness = Witness.choose(limits, own)
    arguments = found.arguments(witness.primes)
    try:
        closed = jax.make_jaxpr(found.function)(*arguments)
    except Exception as failure:  # whatever the function raises while it is traced
        said = " ".join(str(failure).split())[:400]
        raise GraphError(
            f"cannot trace {found.name}: {type(failure).__name__}: {said}"
        ) from failure
    reader = Reader(witness)
    called = list(inspect.signature(found.function).parameters)
    inputs = [
        reader.source(name, leaf, role)
        for position, argument in enumerate(arguments)
        for name, leaf, role in _leaves(argument, called[position] if position else "")
    ]
    outputs = reader.read(closed.jaxpr, closed.consts, inputs, "")
    program = reader.program
    if not outputs:
        raise GraphError(f"{found.name} returns nothing; return the loss")
    first = outputs[0]
    program.loss = first if first.shape == () and "float" in first.dtype else None
    program.outputs = [first] if program.loss else outputs
    graph = finished(program, (drop_broadcasts, *TORCH_FREE), name=found.name, symbols=symbols)
    pins = tuple(f"pin {pin}" for pin in pins_of(program, reader.annotated))
    return graph.model_copy(update={"notes": (*graph.notes, *pins)}) if pins else graph


def _made(spec: str) -> JaxRecipe:
    made = named_function(spec)()
    if not isinstance(made, JaxRecipe):
        raise GraphError(
            f"{spec} returned a {type(made).__name__}; it must return a "
            "meshwright.capture.JaxRecipe"
        )
    return made


def _leaves(argument: Any, called: str) -> list[tuple[str, Any, str]]:
    """Name, struct and role of everything in an argument; the parameters go by no name."""
    made = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(argument)[0]:
        parts = [called] if called else []
        name = ".".join([*parts, *(str(_key(own)) for own in path)]) or "parameters"
        role = "label" if is_label(name) else "input"
        made.append((name, leaf, role if called else "parameter"))
    return made


def _key(own: Any) -> Any:
    for field_name in ("key", "name", "idx"):
        if hasattr(own, field_name):
            return getattr(own, field_name)
    return own


__all__ = ["JaxRecipe", "capture_jax"]
