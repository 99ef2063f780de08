"""`pkg.module:factory` -> Graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from meshwright.capture.module import Inputs, capture_module
from meshwright.capture.named import named_function
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError


@dataclass(frozen=True)
class Recipe:
    """What a factory returns: a module whose forward gives the loss, and how to feed it.

    inputs: called with a size for each symbol; gives the forward's arguments, on the meta device.
    symbols: the sizes that stay symbolic, with their usual values; `batch` is one of them.
    limits: the largest size a symbol may be traced at, see `capture_module`.
    """

    name: str
    module: torch.nn.Module
    inputs: Callable[[Mapping[str, int]], Inputs]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)


def capture_factory(spec: str, *, batch: int | None = None) -> Graph:
    """The graph of the Recipe that `pkg.module:factory` returns when called on the meta device."""
    with torch.device("meta"):
        recipe = named_function(spec)()
    if not isinstance(recipe, Recipe):
        raise GraphError(
            f"{spec} returned a {type(recipe).__name__}; it must return a meshwright.capture.Recipe"
        )
    if batch is not None and "batch" not in recipe.symbols:
        raise GraphError(f"{spec}: the recipe has no symbol 'batch' that {batch} could stand for")
    symbols = {**recipe.symbols, **({} if batch is None else {"batch": batch})}
    return capture_module(
        recipe.module, recipe.inputs, symbols=symbols, limits=recipe.limits, name=recipe.name
    )
