"""Collectives as they ran."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.runtime.moves import Cause
from meshwright.schema import Axis


@dataclass(frozen=True, slots=True)
class Ran:
    """One collective. elements: of the gathered or unreduced tensor on this rank, as `Step` counts
    its payload_bytes; bytes of them at the size that they had here.

    of: the tensor, or the op that ran it by itself. cause: the half of its redistribution, or
    `own`, a step of the op's own; `count`, the labels that a mean is over; `report`, the loss
    that the caller sees; `fallback`, around an op that is run whole.
    """

    kind: str
    axes: tuple[Axis, ...]
    ranks: tuple[int, ...]
    elements: int
    bytes: int
    of: str
    cause: Cause


@dataclass(slots=True)
class Record:
    """All that ran, in order, since it was last cleared.

    saved_bytes: what the last microbatch kept for its backward pass, beside inputs and parameters.
    """

    ran: list[Ran] = field(default_factory=list)
    saved_bytes: int = 0
