"""Capture of a PyTorch module that a factory `pkg.module:factory` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from meshwright.capture.autocast import requested_autocast
from meshwright.capture.import_by_name import named_function
from meshwright.capture.module import capture_module
from meshwright.capture.precision import DType, Inputs
from meshwright.capture.symbol_values import symbol_values
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError


@dataclass(frozen=True)
class Recipe:
    """The result of a factory: a module whose forward returns the loss, and its inputs.

    inputs: called with a size for each symbol; returns the forward's arguments on the meta device.
    symbols: the symbolic sizes with their usual values; `batch` is one of them.
    limits: the largest traced size of a symbol, as in `capture_module`.
    rules: sharding rules of ops without a canonical kind, as in `capture_module`.
    dtype, autocast: the precision, as in `capture_module`.
    """

    name: str
    module: torch.nn.Module
    inputs: Callable[[Mapping[str, int]], Inputs]
    symbols: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    dtype: DType | None = None
    autocast: DType | None = None


def capture_factory(
    spec: str,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    dtype: DType | None = None,
    autocast: DType | None = None,
) -> Graph:
    """The graph of the Recipe of `pkg.module:factory`, which is called on the meta device.

    sizes: values of the recipe's symbols, `batch` among them. dtype, autocast: they replace those
    of the recipe.
    """
    with torch.device("meta"), requested_autocast():
        recipe = named_function(spec)()
    if not isinstance(recipe, Recipe):
        raise GraphError(
            f"{spec} returned a {type(recipe).__name__}; it must return a meshwright.capture.Recipe"
        )
    symbols = symbol_values(recipe.symbols, batch=batch, sizes=sizes, recipe=spec)
    return capture_module(
        recipe.module,
        recipe.inputs,
        symbols=symbols,
        limits=recipe.limits,
        name=recipe.name,
        rules=recipe.rules,
        dtype=dtype or recipe.dtype,
        autocast=autocast or recipe.autocast,
    )
