"""The slice of a plan that one rank of a training job needs."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import PlanError
from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model
from meshwright.schema.plan import Stage
from meshwright.schema.sequence_order import SequenceOrder
from meshwright.schema.step import Step
from meshwright.schema.transfer import Fill, Piece

PassKind = Literal["F", "B", "I", "W"]


class Group(Model):
    """The ranks, this one among them, that differ along `axes` only, in the order of the mesh."""

    axes: tuple[Axis, ...]
    ranks: tuple[int, ...]


class DatasetSlice(Model):
    """What a rank loads of an input or label, in every microbatch: of each dim one of `num_shards`
    equal parts, `shard_id` from 0."""

    tensor: str
    num_shards: tuple[int, ...]
    shard_id: tuple[int, ...]


class RankStage(Model):
    """A stage as one of its ranks carries it out.

    number: among the plan's. groups: of every collective that it takes part in. local_shapes: of
    what the rank holds of every tensor at rest. planned: strategies, layouts, parameters and
    redistributions, which all ranks of the stage share.
    """

    number: int = Field(ge=0)
    coordinates: dict[Axis, int]
    groups: tuple[Group, ...]
    local_shapes: dict[str, tuple[int, ...]]
    planned: Stage


class Site(Model):
    """A stage of the plan, as all ranks know it: they make groups of processes together.

    groups: the sets of axes over whose groups anything of it runs. parameters: that it holds; one
    that several stages hold is equal in all of them.
    """

    ranks_from: int
    mesh: Mesh
    groups: tuple[tuple[Axis, ...], ...]
    parameters: tuple[str, ...]


class StageTransfer(Model):
    """What a rank sends and receives of one tensor on the way from a stage to another, by number.

    what: `value` and `gradient` of what the next stage needs, in every microbatch; `sum`, once a
    step, the gradient of a parameter that both hold, as the optimizer has it, to be added there.
    made, to: its layouts at the source and at the target. reduction: steps of the source before it
    sends. Devices of the pieces are ranks.
    """

    what: Literal["value", "gradient", "sum"]
    tensor: str
    source: int = Field(ge=0)
    target: int = Field(ge=0)
    made: Layout
    to: Layout
    reduction: tuple[Step, ...] = ()
    sends: tuple[Piece, ...] = ()
    receives: tuple[Piece, ...] = ()
    keeps: tuple[Piece, ...] = ()
    fills: tuple[Fill, ...] = ()

    @property
    def sent(self) -> Layout:
        """The layout that is sent from."""
        return self.reduction[-1].to if self.reduction else self.made


class RankStrategy(Document):
    """What one rank does. symbols: the graph's, in one microbatch. gradients: what the setup says
    of them over all microbatches. stages: its own. order: in which sequences are loaded, as the
    plan says.

    sites: all stages of the plan. loss_stage: which of them makes the loss. transfers: between
    stages, those that this rank has a part in. passes: of its stages over microbatches, in their
    order (F: forward, B: backward, or its halves, I: of inputs, W: of weights); a stage by its
    number. Of one stage it is forward and backward of every microbatch in turn.
    """

    prefix: ClassVar[str] = "rank"
    error: ClassVar[type[PlanError]] = PlanError

    schema_version: Literal[1] = 1
    plan: str
    graph: str
    rank: int = Field(ge=0)
    world_size: int = Field(ge=1)
    symbols: dict[str, int]
    microbatches: int = Field(default=1, ge=1)
    gradients: Literal["mean", "sum"] = "mean"
    dataset: tuple[DatasetSlice, ...] = ()
    stages: tuple[RankStage, ...]
    sites: tuple[Site, ...]
    loss_stage: int = Field(default=0, ge=0)
    transfers: tuple[StageTransfer, ...] = ()
    passes: tuple[tuple[int, PassKind, int], ...]
    order: tuple[SequenceOrder, ...] = ()
