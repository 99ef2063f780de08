"""The slice of a plan that one rank of a training job needs."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import PlanError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model
from meshwright.schema.pipeline import Schedule
from meshwright.schema.plan import Stage
from meshwright.schema.sequence_order import SequenceOrder


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


class RankStrategy(Document):
    """What one rank does. symbols: the graph's, in one microbatch. gradients: what the setup says
    of them over all microbatches. schedule: of a plan with several stages. order: in which
    sequences are loaded, as the plan says."""

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
    schedule: Schedule | None = None
    order: tuple[SequenceOrder, ...] = ()
