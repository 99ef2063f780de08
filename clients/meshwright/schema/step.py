"""Steps: one collective, or local slice, on the way from one layout of a tensor to another."""

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
    """One collective (or local slice) over the groups of `axes`; permute: all swap their parts;
    sparse_all_reduce: all gather the ids and the rows of a sparse gradient; reduce, broadcast: to
    and from the parameter's owner (`ParameterPlan.owner`), all others have nothing to add.

    payload_bytes: the gathered or unreduced tensor on one device. peak_bytes: what the step's own
    buffers, input and output, take on one device while it runs. to: the layout afterwards, of the
    value in forward steps and of the gradient in backward steps.
    """

    kind: CollectiveKind
    axes: tuple[Axis, ...]
    payload_bytes: int = Field(ge=0)
    peak_bytes: int = Field(default=0, ge=0)
    ns: Ns
    to: Layout
