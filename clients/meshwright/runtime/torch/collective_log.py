"""The log of collectives that a rank ran."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.runtime.redistribution_steps import Cause
from meshwright.schema import Axis


@dataclass(frozen=True, slots=True)
class LoggedCollective:
    """One collective.

    elements  the size of the gathered or unreduced tensor on this rank, as in `Step.payload_bytes`
    bytes     the size of these elements in their actual dtype
    of        the tensor, or the op that ran the collective
    cause     the half of the redistribution, or `own`: a collective inside an op, `count`: the
              number of labels of a mean or of the slots of experts, `report`: the loss of the
              caller, `fallback`: around an op that runs whole
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
    """All collectives since the log was last cleared, in order.

    `saved_bytes` are the activations that the last microbatch saved for its backward pass, without
    inputs and parameters. `expert_slots` are the slots of an expert for each sequence in the last
    microbatch, by dispatch. `dropped_tokens` counts tokens that the captured module does not drop.
    """

    ran: list[LoggedCollective] = field(default_factory=list)
    saved_bytes: int = 0
    expert_slots: dict[str, int] = field(default_factory=dict)
    dropped_tokens: dict[str, int] = field(default_factory=dict)
