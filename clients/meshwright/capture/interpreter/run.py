"""Call of one op in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from meshwright.schema import Op

# of an expert: as the shape states them, or as many as the busiest one needs
Slots = Literal["stated", "enough"]


@dataclass(frozen=True)
class TorchOpCall:
    """An op with its inputs, its attrs with numeric sizes, and the shapes of its outputs."""

    op: Op
    inputs: list[torch.Tensor]
    attrs: dict[str, Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[torch.dtype]
    slots: Slots = "stated"

    @property
    def x(self) -> torch.Tensor:
        return self.inputs[0]

    def optional(self, position: int) -> torch.Tensor | None:
        """The input at this position; None for an op with fewer inputs."""
        return self.inputs[position] if position < len(self.inputs) else None


Kernel = Callable[[TorchOpCall], Any]
