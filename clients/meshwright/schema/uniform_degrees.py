"""Uniform degrees: a plan in the degrees of frameworks, and its differences from them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from meshwright.schema.degrees import Degrees
from meshwright.schema.graph import DType
from meshwright.schema.model import Model
from meshwright.schema.pipeline import ScheduleKind
from meshwright.schema.setup import Precision

Role = Literal["dp", "tp", "cp", "ep"]


class Difference(Model):
    """A group of ops or parameters that differ from the degrees."""

    name: str = Field(description="A pattern of their names.")
    count: int = Field(description="The number of ops or parameters.")
    what: str = Field(description="Their strategy or layout in the plan.")


class Uniform(Model):
    """The parallel degrees of a plan, as frameworks state them."""

    degrees: Degrees = Field(description="The degrees, always with `dp`.")
    zero_size: int = Field(
        default=1, description="The number of devices over which ZeRO shards, at most dp · cp."
    )
    pipeline_ranks: int = Field(default=1, description="The number of pipeline ranks.")
    stages_per_rank: int = Field(default=1, description="The number of virtual stages of a rank.")
    schedule: ScheduleKind | None = Field(
        default=None, description="The pipeline schedule. None if the plan has one stage."
    )
    layers: tuple[int, ...] = Field(
        default=(),
        description="The number of layers of each stage, in order. Empty if the graph has no "
        "layers.",
    )
    microbatches: int = Field(description="The number of microbatches of a step.")
    global_batch: int | None = Field(
        default=None, description="The batch of a step. None if unknown."
    )
    sequence: int | None = Field(default=None, description="The sequence length. None if unknown.")
    is_zigzag: bool = Field(
        default=False,
        description="Whether sequences are loaded in the zigzag order that balances causal "
        "attention over cp.",
    )
    expert_dispatch: Literal["expert", "node"] = Field(
        default="expert", description="The copies of a token that travel to experts."
    )
    precision: Precision = Field(
        default="graph", description="The precision of products with large weights."
    )
    dtype: DType | None = Field(
        default=None,
        description="The dtype of most matrix products. None if the graph has none.",
    )
    padded_vocabulary: int | None = Field(
        default=None,
        description="The stored size of a vocabulary that the degrees do not divide. None if they "
        "do.",
    )
    recompute: str = Field(default="none", description="The recomputation policy.")
    recomputed_layers: int | None = Field(
        default=None,
        description="The number of layers of each stage that are recomputed, from the first. "
        "None: all.",
    )
    repeats_communication: bool = Field(
        default=True,
        description="Whether the recomputation repeats most redistributions of activations; "
        "otherwise their results are saved.",
    )
    gradient_buckets: int | None = Field(
        default=None,
        description="The number of fused collectives of gradients. None if there are none.",
    )
    copies: int = Field(default=1, description="The number of microbatches that alternate.")
    differing: tuple[Difference, ...] = Field(
        default_factory=tuple, description="The ops and parameters that differ from the degrees."
    )
    uneven_parts: tuple[Difference, ...] = Field(
        default_factory=tuple,
        description="The tensors of ops with dims that the degrees do not divide.",
    )
    uneven_states: tuple[Difference, ...] = Field(
        default_factory=tuple,
        description="The parameters whose states at rest have dims that ZeRO does not divide.",
    )

    @property
    def microbatch_size(self) -> int:
        """The sequences of a microbatch on one data-parallel device."""
        return max(1, (self.global_batch or 1) // (self.microbatches * (self.degrees.dp or 1)))
