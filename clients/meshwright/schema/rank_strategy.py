"""Rank strategies: the slice of a plan that one rank of a training job runs."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.collective_step import Step
from meshwright.schema.errors import PlanError
from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model
from meshwright.schema.sequence_order import SequenceOrder
from meshwright.schema.stage import Stage
from meshwright.schema.transfer import Fill, Piece

PassKind = Literal["F", "B", "I", "W"]


class Group(Model):
    """A process group of this rank."""

    axes: tuple[Axis, ...] = Field(description="The mesh axes along which its ranks differ.")
    ranks: tuple[int, ...] = Field(description="The ranks of the group, in the order of the mesh.")


class DatasetSlice(Model):
    """The slice of an input or label that a rank loads in every microbatch."""

    tensor: str = Field(description="The name of the tensor.")
    num_shards: tuple[int, ...] = Field(description="The number of equal parts of each dim.")
    shard_id: tuple[int, ...] = Field(
        description="The index of this rank's part in each dim, from 0."
    )


class RankStage(Model):
    """A stage as one of its ranks runs it."""

    number: int = Field(ge=0, description="The number of the stage in the plan, from 0.")
    coordinates: dict[Axis, int] = Field(
        description="The coordinates of the rank on the axes of the mesh."
    )
    groups: tuple[Group, ...] = Field(
        description="The process groups of all collectives of the rank."
    )
    local_shapes: dict[str, tuple[int, ...]] = Field(
        description="The local shape of every tensor at rest."
    )
    planned: Stage = Field(description="The plan of the stage, which all of its ranks share.")


class Site(Model):
    """The information on a stage that all ranks need to create process groups together."""

    ranks_from: int = Field(description="The first rank of the mesh.")
    mesh: Mesh = Field(description="The mesh of the stage.")
    groups: tuple[tuple[Axis, ...], ...] = Field(
        description="The sets of axes over whose groups collectives of the stage run."
    )
    parameters: tuple[str, ...] = Field(
        description="The parameters of the stage. A parameter of several stages is equal in all "
        "of them."
    )


class StageTransfer(Model):
    """The sends and receives of a rank for one tensor between two stages.

    The devices of its pieces are ranks.
    """

    what: Literal["value", "gradient", "sum"] = Field(
        description="`value` and `gradient`: a tensor that the next stage reads, in every "
        "microbatch. `sum`: once per step, the gradient of a shared parameter in the layout of "
        "the optimizer, to be added at the target."
    )
    tensor: str = Field(description="The name of the tensor.")
    source: int = Field(ge=0, description="The number of the sending stage.")
    target: int = Field(ge=0, description="The number of the receiving stage.")
    made: Layout = Field(description="The layout at the source.")
    to: Layout = Field(description="The layout at the target.")
    reduction: tuple[Step, ...] = Field(
        default=(), description="The steps at the source before it sends."
    )
    sends: tuple[Piece, ...] = Field(default=(), description="The pieces that the rank sends.")
    receives: tuple[Piece, ...] = Field(
        default=(), description="The pieces that the rank receives."
    )
    keeps: tuple[Piece, ...] = Field(default=(), description="The pieces that stay on the rank.")
    fills: tuple[Fill, ...] = Field(
        default=(), description="The tensors that the rank fills with a neutral element."
    )

    @property
    def sent(self) -> Layout:
        """The layout from which the source sends, after the reduction."""
        return self.reduction[-1].to if self.reduction else self.made


class RankStrategy(Document):
    """The slice of a plan that one rank runs."""

    prefix: ClassVar[str] = "rank"
    error: ClassVar[type[PlanError]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    graph: str = Field(description="The id of the operator graph.")
    rank: int = Field(ge=0, description="The rank.")
    world_size: int = Field(ge=1, description="The number of ranks.")
    symbols: dict[str, int] = Field(
        description="The values of the graph's symbols in one microbatch."
    )
    microbatches: int = Field(default=1, ge=1, description="The number of microbatches of a step.")
    gradients: Literal["mean", "sum"] = Field(
        default="mean", description="The reduction of gradients over the batch, as in the setup."
    )
    dataset: tuple[DatasetSlice, ...] = Field(
        default=(), description="The slices of inputs and labels that the rank loads."
    )
    stages: tuple[RankStage, ...] = Field(description="The stages of the rank.")
    sites: tuple[Site, ...] = Field(description="All stages of the plan.")
    loss_stage: int = Field(
        default=0, ge=0, description="The number of the stage that computes the loss."
    )
    transfers: tuple[StageTransfer, ...] = Field(
        default=(), description="The transfers between stages that involve the rank."
    )
    passes: tuple[tuple[int, PassKind, int], ...] = Field(
        description="The passes of the rank, in order, as (stage, pass, microbatch). F: forward. "
        "B: backward. I and W: backward for inputs and for weights."
    )
    order: tuple[SequenceOrder, ...] = Field(
        default=(), description="The orders in which sequences are loaded, as in the plan."
    )
