"""Sequence orders: the order in which sequences are loaded, to balance causal attention."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import PlanError
from meshwright.schema.model import Model

Order = Literal["contiguous", "zigzag"]


class LoadedDim(Model):
    """A tensor dim that is in the order of the sequence."""

    tensor: str = Field(description="The name of the input, label or constant.")
    dim: int = Field(ge=0, description="The position of the dim, from 0.")


class SequenceOrder(Model):
    """A zigzag order of sequence positions, which balances causal attention (context parallelism).

    The `size` positions form 2p equal chunks. Part i of p has the chunks i and 2p-1-i. Layouts and
    steps of the plan count positions in this order. A part of a divisor of p is contiguous.
    """

    size: int = Field(ge=2, description="The number of positions.")
    chunks: int = Field(ge=4, description="The number of chunks, 2p.")
    loaded: tuple[LoadedDim, ...] = Field(
        default=(),
        description="The dims of inputs, labels and constants that are loaded in this order.",
    )
    by_position: tuple[str, ...] = Field(
        default=(),
        description="The ops that use true positions: causal attention masks, and ops on inputs "
        "and labels before they are sharded.",
    )
    turned: tuple[LoadedDim, ...] = Field(
        default=(),
        description="The dims in this order that these ops on inputs and labels read and write.",
    )

    @model_validator(mode="after")
    def _check(self) -> SequenceOrder:
        if self.chunks % 2 or self.size % self.chunks:
            raise PlanError(
                f"{self.size} positions cannot be loaded in {self.chunks} chunks. Use an even "
                "number of chunks that divides them"
            )
        return self

    @property
    def positions(self) -> tuple[int, ...]:
        """The true position of each loaded position."""
        return zigzag(self.size, self.chunks)


def zigzag(size: int, chunks: int) -> tuple[int, ...]:
    """The true positions in zigzag order: chunks 0, last, 1, last but one, and so on."""
    length = size // chunks
    order = [chunk for k in range(chunks // 2) for chunk in (k, chunks - 1 - k)]
    return tuple(p for chunk in order for p in range(chunk * length, (chunk + 1) * length))
