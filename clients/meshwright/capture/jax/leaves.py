"""The arrays of a function's arguments by name: their place in a tree of dicts and lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax


class Leaf(NamedTuple):
    """value: an array, or its shape and dtype."""

    name: str
    value: Any


def named_leaves(argument: Any, called: str) -> Iterator[Leaf]:
    """In the order of the tree. called: the argument's own name; parameters go by none."""
    for path, value in jax.tree_util.tree_flatten_with_path(argument)[0]:
        parts = [called] if called else []
        name = ".".join([*parts, *(str(_key(own)) for own in path)]) or "parameters"
        yield Leaf(name, value)


def _key(own: Any) -> Any:
    for field_name in ("key", "name", "idx"):
        if hasattr(own, field_name):
            return getattr(own, field_name)
    return own
