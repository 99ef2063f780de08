"""Checkpoints: the index of the files that hold the shards of parameters and optimizer states.

The document is in the folder of the files. The writer replaces it after all files are complete, so
that the index commits the checkpoint.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import CheckpointError
from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Mesh
from meshwright.schema.model import Document, Model


class HeldStage(Model):
    """The layouts of a stage's parameters and optimizer states in a checkpoint."""

    number: int = Field(ge=0, description="The number of the stage in the plan, from 0.")
    mesh: Mesh = Field(description="The mesh of the stage.")
    ranks_from: int = Field(default=0, ge=0, description="The first rank of the mesh.")
    layouts: dict[str, Layout] = Field(
        description="The layout of every parameter at rest, by its name."
    )


class CheckpointFile(Model):
    """A safetensors file with the shards that one rank writes. One of several replicas writes."""

    name: str = Field(description="The name of the file in the folder.")
    rank: int = Field(ge=0, description="The rank that writes the file.")
    bytes: int = Field(ge=0, description="The length of the file in bytes.")
    digest: str = Field(description="The SHA-256 digest of the file, in hexadecimal.")
    tensors: tuple[str, ...] = Field(
        description="The keys of the file: names of parameters, or `optimizer/STATE/NAME`."
    )


class OptimizerGroup(Model):
    """A parameter group of an optimizer."""

    parameters: tuple[str, ...] = Field(description="The names of the parameters of the group.")
    options: dict[str, Any] = Field(
        description="The options of the group, such as the learning rate."
    )


class Checkpoint(Document):
    """A checkpoint of the parameters of a plan and of the optimizer states, if there are any.

    A key is the name of a parameter, or `optimizer/STATE/NAME`.
    """

    prefix: ClassVar[str] = "checkpoint"
    error: ClassVar[type[CheckpointError]] = CheckpointError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    graph: str = Field(description="The id of the operator graph.")
    world_size: int = Field(ge=1, description="The number of ranks.")
    stages: tuple[HeldStage, ...] = Field(description="The layouts of the parameters, by stage.")
    files: tuple[CheckpointFile, ...] = Field(description="The files of the checkpoint.")
    optimizer: tuple[OptimizerGroup, ...] = Field(
        default=(),
        description="The parameter groups of the optimizer. Empty if the checkpoint has no "
        "optimizer.",
    )
    extra: dict[str, Any] = Field(
        default_factory=dict, description="Further values that the job saves with the checkpoint."
    )
