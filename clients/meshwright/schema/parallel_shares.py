"""Parallel shares: the parallelism of groups of modules."""

from __future__ import annotations

from pydantic import Field

from meshwright.schema.model import Model
from meshwright.schema.uniform_degrees import Role


class ParallelShare(Model):
    """A group of modules whose ops are cut alike."""

    modules: str = Field(
        description="A pattern of the names of the modules. Empty for all smaller groups."
    )
    count: int = Field(ge=1, description="The number of modules.")
    ways: dict[Role, int] = Field(
        default_factory=dict,
        description="The number of parts by role of the dims: `dp` the batch, `cp` the sequence, "
        "`ep` the experts, `tp` other dims. Without an entry, devices repeat each other's work.",
    )
    share: float = Field(
        ge=0, le=1, description="The share of the compute time of a step of all devices, 0 to 1."
    )
