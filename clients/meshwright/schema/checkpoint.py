"""Checkpoints: which file of a folder holds which part of every parameter and optimizer state.

The document lies beside the files, and is replaced when all of them are written: it is what makes
them a checkpoint.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import CheckpointError
from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Mesh
from meshwright.schema.model import Document, Model


class HeldStage(Model):
    """How the parameters of a stage lay between steps, their optimizer state with them."""

    number: int = Field(ge=0)
    mesh: Mesh
    ranks_from: int = Field(default=0, ge=0)
    layouts: dict[str, Layout]


class CheckpointFile(Model):
    """A safetensors file, written by a rank: its part of each of `tensors`, whose keys these are.

    Of equal replicas one writes. digest: the file's SHA-256, in hexadecimal.
    """

    name: str
    rank: int = Field(ge=0)
    bytes: int = Field(ge=0)
    digest: str
    tensors: tuple[str, ...]


class OptimizerGroup(Model):
    """Options of an optimizer, and the parameters that it has with them."""

    parameters: tuple[str, ...]
    options: dict[str, Any]


class Checkpoint(Document):
    """A checkpoint of a plan's parameters, and of an optimizer's states where it has one.

    A key is the name of a parameter, or `optimizer/STATE/NAME`. extra: what the job kept with it.
    """

    prefix: ClassVar[str] = "checkpoint"
    error: ClassVar[type[CheckpointError]] = CheckpointError

    schema_version: Literal[1] = 1
    plan: str
    graph: str
    world_size: int = Field(ge=1)
    stages: tuple[HeldStage, ...]
    files: tuple[CheckpointFile, ...]
    optimizer: tuple[OptimizerGroup, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)
