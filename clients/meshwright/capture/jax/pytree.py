"""Names of the arrays in a function's arguments, from their path in the pytree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax


class Leaf(NamedTuple):
    """A named leaf of a pytree: an array, or its shape and dtype."""

    name: str
    value: Any


def named_leaves(argument: Any, argument_name: str) -> Iterator[Leaf]:
    """The leaves in tree order; `argument_name` is the argument's name, empty for parameters."""
    for path, value in jax.tree_util.tree_flatten_with_path(argument)[0]:
        parts = [argument_name] if argument_name else []
        name = ".".join([*parts, *(str(_key(entry)) for entry in path)]) or "parameters"
        yield Leaf(name, value)


def _key(entry: Any) -> Any:
    for field_name in ("key", "name", "idx"):
        if hasattr(entry, field_name):
            return getattr(entry, field_name)
    return entry
