"""Tensor layouts: the blocks of one tensor on the devices, before and after each collective."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns
from meshwright.schema.stage import Direction


class Cut(Model):
    """A cut of one dim, or of a sub-dim, into equal parts."""

    dim: int = Field(ge=0, description="The position of the dim.")
    size: int = Field(ge=1, description="The length of the sub-dim in elements.")
    axes: tuple[Axis, ...] = Field(description="The mesh axes that cut it, slowest first.")
    ways: int = Field(ge=2, description="The number of parts.")


class Blocks(Model):
    """A layout as a grid of blocks.

    The rows are the parts of the first cut; the columns are the parts of all other cuts, the last
    one fastest. The devices of a block hold the same part of the tensor, or partial values of it.
    """

    layout: str = Field(description="The layout as text.")
    cuts: tuple[Cut, ...] = Field(description="The cuts, in the order of the dims.")
    partial: tuple[Axis, ...] = Field(
        default=(), description="The axes over which the values are partial."
    )
    shape: tuple[int, ...] = Field(description="The largest local shape of a device in elements.")
    rows: int = Field(ge=1, description="The number of rows.")
    columns: int = Field(ge=1, description="The number of columns.")
    devices: tuple[tuple[str, ...], ...] = Field(
        description="The ranks of the devices of each block, row by row, as ranges; of large grids "
        "the first eight rows and columns."
    )


class BlockChange(Model):
    """A collective, or a local slice, and the layout after it."""

    kind: str = Field(description="The collective.")
    axes: tuple[Axis, ...] = Field(description="The mesh axes of its groups.")
    payload_bytes: int = Field(ge=0, description="The payload on one device, in bytes.")
    ns: Ns = Field(description="The time in nanoseconds.")
    after: Blocks = Field(description="The layout after it.")


class LayoutPath(Model):
    """The changes between a tensor at rest and one reader, or all readers, in one pass.

    In a backward pass the gradient comes from the reader, so that its layout there is not known
    before the first change.
    """

    reader: str | None = Field(default=None, description="A pattern of the readers. None: all.")
    readers: int = Field(default=1, ge=1, description="The number of readers with these changes.")
    direction: Direction = Field(description="The pass; `step`: once per step.")
    traffic: str = Field(description="The kind of the traffic.")
    changes: tuple[BlockChange, ...] = Field(description="The changes, in order.")


class TensorLayouts(Document):
    """The layouts of one tensor in one stage of a plan."""

    prefix: ClassVar[str] = "view"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    tensor: str = Field(description="The name of the tensor; of a view, that of its source.")
    stage: int = Field(ge=0, description="The number of the stage.")
    mesh: Mesh = Field(description="The mesh of the stage.")
    first_rank: int = Field(ge=0, description="The first rank of the mesh.")
    shape: tuple[int, ...] = Field(description="The shape of the tensor in elements.")
    value: Blocks = Field(description="The value at rest.")
    gradient: Blocks | None = Field(
        default=None, description="The gradient at rest. None if there is none."
    )
    optimizer: Blocks | None = Field(
        default=None, description="The optimizer state. None if there is none."
    )
    paths: tuple[LayoutPath, ...] = Field(
        default=(), description="The redistributions of the tensor and of its gradient."
    )
