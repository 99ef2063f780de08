"""One op while it is interpreted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from meshwright.schema import Op


@dataclass(frozen=True)
class Run:
    """An op with its inputs, its attrs with sizes in numbers, and what its outputs must be."""

    op: Op
    inputs: list[torch.Tensor]
    attrs: dict[str, Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[torch.dtype]
    capacity_factor: float | None

    @property
    def x(self) -> torch.Tensor:
        return self.inputs[0]

    def optional(self, position: int) -> torch.Tensor | None:
        """The input at this position, None where the op has fewer."""
        return self.inputs[position] if position < len(self.inputs) else None


Kernel = Callable[[Run], Any]
