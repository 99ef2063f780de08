"""The order in which a sequence is loaded, so that causal attention is as much work everywhere."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import PlanError
from meshwright.schema.model import Model

Order = Literal["contiguous", "zigzag"]


class LoadedDim(Model):
    """A dim that is loaded, or made, in the order: of an input, a label or a constant."""

    tensor: str
    dim: int = Field(ge=0)


class SequenceOrder(Model):
    """`size` positions in `chunks` equal chunks, 2p of them: part i of p has chunks i and 2p-1-i.

    Layouts and steps of the plan count positions as they are loaded: a part of any p' that divides
    p is a stretch of them, and has equally many early and late ones. loaded: what is loaded in this
    order, or taken so from what is known. by_position: ops that go by true positions all the same:
    masks of causal attention, and what is made of labels and inputs before it is cut. turned: of
    the latter, the dims of what they read and make that are in this order.
    """

    size: int = Field(ge=2)
    chunks: int = Field(ge=4)
    loaded: tuple[LoadedDim, ...] = ()
    by_position: tuple[str, ...] = ()
    turned: tuple[LoadedDim, ...] = ()

    @model_validator(mode="after")
    def _divides(self) -> SequenceOrder:
        if self.chunks % 2 or self.size % self.chunks:
            raise PlanError(
                f"{self.size} positions cannot be loaded in {self.chunks} chunks: an even number "
                "of chunks that divides them would do"
            )
        return self

    @property
    def positions(self) -> tuple[int, ...]:
        """The true positions in the order in which they are loaded."""
        return zigzag(self.size, self.chunks)


def zigzag(size: int, chunks: int) -> tuple[int, ...]:
    """True positions as loaded: chunks 0, last, 1, last but one, and so on."""
    length = size // chunks
    order = [own for k in range(chunks // 2) for own in (k, chunks - 1 - k)]
    return tuple(p for own in order for p in range(own * length, (own + 1) * length))
