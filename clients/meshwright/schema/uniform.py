"""A plan in the degrees that frameworks have, and how far it is not so."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from meshwright.schema.degrees import Degrees
from meshwright.schema.model import Model
from meshwright.schema.pipeline import ScheduleKind

Role = Literal["dp", "tp", "cp", "ep"]


class Difference(Model):
    """Ops or parameters (as a pattern of their names, `count` of them) that are not as the degrees
    say, and what they are instead."""

    name: str
    count: int
    what: str


class Uniform(Model):
    """Degrees as frameworks have them; `dp` is always said.

    zero_size: over so many devices ZeRO shards; dp · cp of them at most. layers: of every stage, in
    their order; () where no layers are found. is_zigzag: the plan loads sequences so that causal
    attention is as much work on all ranks of cp. copies: so many microbatches take turns.
    """

    degrees: Degrees
    zero_size: int = 1
    pipeline_ranks: int = 1
    stages_per_rank: int = 1
    schedule: ScheduleKind | None = None
    layers: tuple[int, ...] = ()
    microbatches: int
    global_batch: int | None = None
    sequence: int | None = None
    is_zigzag: bool = False
    recompute: str = "none"
    copies: int = 1
    differing: tuple[Difference, ...] = Field(default_factory=tuple)

    @property
    def microbatch_size(self) -> int:
        """Sequences of a microbatch on one device of dp."""
        return max(1, (self.global_batch or 1) // (self.microbatches * (self.degrees.dp or 1)))
