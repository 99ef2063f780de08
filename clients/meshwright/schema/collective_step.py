"""Redistribution steps: one collective, or local slice, each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Model, Ns

CollectiveKind = Literal[
    "slice",
    "all_gather",
    "all_to_all",
    "reduce_scatter",
    "all_reduce",
    "sparse_all_reduce",
    "reduce",
    "broadcast",
    "permute",
    "mask",
]


class Step(Model):
    """A step of a redistribution: one collective or local slice over the groups of `axes`."""

    kind: CollectiveKind = Field(
        description="The collective. `permute`: the devices exchange their parts. "
        "`sparse_all_reduce`: an all-gather of the ids and rows of a sparse gradient. `reduce` "
        "and `broadcast`: to and from the owner of the parameter (`ParameterPlan.owner`)."
    )
    axes: tuple[Axis, ...] = Field(description="The mesh axes of the groups.")
    payload_bytes: int = Field(
        ge=0, description="The size of the gathered or unreduced tensor on one device, in bytes."
    )
    peak_bytes: int = Field(
        default=0,
        ge=0,
        description="The size of the input and output buffers of the step on one device, in bytes.",
    )
    ns: Ns = Field(description="The time of the step in nanoseconds.")
    to: Layout = Field(
        description="The layout after the step: of the value in a forward step, of the gradient "
        "in a backward step."
    )
