"""Capture of a PyTorch module that a factory `pkg.module:factory` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from meshwright.capture.import_by_name import named_function
from meshwright.capture.module import Inputs, capture_module
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError


@dataclass(frozen=True)
class Recipe:
    """The result of a factory: a module whose forward returns the loss, and its inputs.

    inputs: called with a size for each symbol; returns the forward's arguments on the meta device.
    symbols: the symbolic sizes with their usual values; `batch` is one of them.
    limits: the largest traced size of a symbol, as in `capture_module`.
    rules: sharding rules of ops without a canonical kind, as in `capture_module`.
    """

    name: str
    module: torch.nn.Module
    inputs: Callable[[Mapping[str, int]], Inputs]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


def capture_factory(spec: str, *, batch: int | None = None) -> Graph:
    """The graph of the Recipe of `pkg.module:factory`, which is called on the meta device."""
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
        recipe.module,
        recipe.inputs,
        symbols=symbols,
        limits=recipe.limits,
        name=recipe.name,
        rules=recipe.rules,
    )
