"""`pkg.module:factory` of a JAX function -> Graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from meshwright.capture.finish import finished, is_label
from meshwright.capture.jax.annotations import pins_of
from meshwright.capture.jax.broadcasts import drop_broadcasts
from meshwright.capture.jax.leaves import named_leaves
from meshwright.capture.jax.reader import Reader
from meshwright.capture.jax.written_out import recognise_means, recognise_softmax
from meshwright.capture.named import named_function
from meshwright.capture.passes import TORCH_FREE
from meshwright.capture.program import Value
from meshwright.capture.witness import Witness
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError

PASSES = (drop_broadcasts, recognise_means, recognise_softmax, *TORCH_FREE)
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
    reader, outputs = read_function(found.function, arguments, witness, found.name)
    program = reader.program
    if not outputs:
        raise GraphError(f"{found.name} returns nothing; return the loss")
    first = outputs[0]
    program.loss = first if first.shape == () and "float" in first.dtype else None
    program.outputs = [first] if program.loss else outputs
    graph = finished(program, PASSES, name=found.name, symbols=symbols)
    pins = tuple(f"pin {pin}" for pin in pins_of(program, reader.annotated))
    return graph.model_copy(update={"notes": (*graph.notes, *pins)}) if pins else graph


def read_function(
    function: Callable[..., Any], arguments: Sequence[Any], witness: Witness, name: str
) -> tuple[Reader, list[Value]]:
    """A function traced for such arguments, the first of them its parameters, and its results.

    GraphError with its own words where it fails; name: to say so.
    """
    try:
        closed = jax.make_jaxpr(function)(*arguments)
    except Exception as failure:  # whatever the function raises while it is traced
        said = " ".join(str(failure).split())[:400]
        raise GraphError(f"cannot trace {name}: {type(failure).__name__}: {said}") from failure
    reader = Reader(witness)
    called = ["", *list(inspect.signature(function).parameters)[1:]]
    inputs = []
    for own, argument in zip(called, arguments, strict=False):
        for leaf in named_leaves(argument, own):
            role = "parameter" if not own else "label" if is_label(leaf.name) else "input"
            inputs.append(reader.source(leaf.name, leaf.value, role))
    return reader, reader.read(closed.jaxpr, closed.consts, inputs, "")


def _made(spec: str) -> JaxRecipe:
    made = named_function(spec)()
    if not isinstance(made, JaxRecipe):
        raise GraphError(
            f"{spec} returned a {type(made).__name__}; it must return a "
            "meshwright.capture.JaxRecipe"
        )
    return made


__all__ = ["JaxRecipe", "capture_jax"]
