"""Primitives of a network by path, such as `blocks.0.q.matmul`, for calls of `.shard()`."""

from __future__ import annotations

from collections.abc import Iterator

from mindspore import nn
from mindspore.ops import Primitive


def primitives_of(network: nn.Cell) -> Iterator[tuple[str, Primitive]]:
    """Every primitive that is an attribute of a cell, once per path."""
    for cell_path, cell in network.cells_and_names():
        for name, value in vars(cell).items():
            if isinstance(value, Primitive):
                yield f"{cell_path}.{name}" if cell_path else name, value
