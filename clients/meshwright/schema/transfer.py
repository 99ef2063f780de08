"""Transfers: sends and receives that move tensors from one mesh to another.

A transfer moves tensors between two plans (a checkpoint, also to another number of devices) or
between two stages. The document has totals and, for each group of tensors with equal transfers, the
two layouts and the turn. These imply every send. A `DeviceTransfer` lists the sends of one device,
because a list of all sends would have millions of entries.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.collective_step import Step
from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Mesh
from meshwright.schema.model import Document, Model, Ns

TransferState = Literal["value", "gradient", "optimizer"]
MovedStates = Literal["value", "optimizer", "all"]  # the states of parameters that move


class Stretch(Model):
    """A strided range of indices of a dim of the whole tensor."""

    first: int = Field(ge=0, description="The first index.")
    length: int = Field(ge=1, description="The number of consecutive indices in a run.")
    step: int = Field(default=0, ge=0, description="The distance between the starts of runs.")
    count: int = Field(default=1, ge=1, description="The number of runs.")


class Piece(Model):
    """A box of each of `tensors`: the product of the ranges of its dims.

    A device stores its part of a tensor with the indices of every dim in ascending order.
    """

    tensors: tuple[str, ...] = Field(description="The names of the tensors.")
    state: TransferState = Field(description="The state of the tensors that moves.")
    source: int = Field(description="The sending device.")
    target: int = Field(
        description="The receiving device. The piece stays in place if it equals `source`."
    )
    wave: int = Field(
        ge=0,
        le=2,
        description="The wave of the transfer. 0: the piece stays in place. 1: sent first. 2: "
        "forwarded from wave 1.",
    )
    dims: tuple[tuple[Stretch, ...], ...] = Field(description="The ranges of indices of each dim.")
    bytes: int = Field(description="The size of the box in one tensor, in bytes.")


class Fill(Model):
    """Tensors that a device fills with the neutral element of their reduction."""

    tensors: tuple[str, ...] = Field(description="The names of the tensors.")
    state: TransferState = Field(description="The state of the tensors.")
    value: Literal["zero", "lowest"] = Field(
        description="The neutral element: zero of a sum, the lowest number of a maximum."
    )


class DeviceTransfer(Document):
    """The part of one device in a transfer."""

    prefix: ClassVar[str] = "sends"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    device: int = Field(description="The number of the device.")
    sends: tuple[Piece, ...] = Field(default=(), description="The pieces that the device sends.")
    receives: tuple[Piece, ...] = Field(
        default=(), description="The pieces that the device receives."
    )
    keeps: tuple[Piece, ...] = Field(default=(), description="The pieces that stay on the device.")
    fills: tuple[Fill, ...] = Field(
        default=(), description="The tensors that the device fills with a neutral element."
    )


class Place(Model):
    """A mesh on devices of the cluster."""

    mesh: Mesh = Field(description="The mesh.")
    devices: tuple[tuple[int, int], ...] = Field(
        description="The devices in the order of the ranks, as ranges (first, count)."
    )

    @property
    def ranks(self) -> tuple[int, ...]:
        """The device of every rank."""
        return tuple(first + k for first, count in self.devices for k in range(count))


class TensorTransfer(Model):
    """Tensors with equal transfers. Bytes and sends are sums over the tensors."""

    tensors: tuple[str, ...] = Field(description="The names of the tensors.")
    state: TransferState = Field(description="The state of the tensors that moves.")
    element_bytes: int = Field(description="The size of an element in bytes.")
    source: Layout = Field(description="The layout on the source mesh.")
    source_place: int = Field(
        description="The position of the source mesh in the transfer's `places`."
    )
    target: Layout = Field(description="The layout on the target mesh.")
    target_place: int = Field(
        description="The position of the target mesh in the transfer's `places`."
    )
    reduction: tuple[Step, ...] = Field(
        default=(),
        description="The steps on the source mesh before the transfer, if the source is partial.",
    )
    turn: int = Field(
        default=0,
        description="The rotation of senders that shares work among replicas: holder `turn + k` "
        "sends the k-th tensor.",
    )
    moved_bytes: int = Field(description="The bytes that move between devices.")
    kept_bytes: int = Field(description="The bytes that stay in place.")
    sends: int = Field(description="The number of sends.")

    @property
    def sent(self) -> Layout:
        """The layout from which the source sends, after the reduction."""
        return self.reduction[-1].to if self.reduction else self.source


class DeviceLoad(Model):
    """The load of each of `count` consecutive devices."""

    first: int = Field(description="The first device.")
    count: int = Field(description="The number of devices.")
    sent_bytes: int = Field(description="The bytes that each device sends.")
    received_bytes: int = Field(description="The bytes that each device receives.")
    kept_bytes: int = Field(description="The bytes that stay on each device.")


class BusiestLink(Model):
    """The link that determines the time of a transfer."""

    level: str = Field(description="The name of the topology level.")
    device: int = Field(description="The number of the device.")
    direction: Literal["out", "in"] = Field(
        description="Whether the link leads out of the device or into it."
    )
    bytes: int = Field(description="The bytes over the link.")


class Transfer(Document):
    """A transfer of tensors from one mesh or plan to another."""

    prefix: ClassVar[str] = "transfer"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    from_plan: str = Field(
        default="", description="The id of the source plan. Empty for a transfer between meshes."
    )
    to_plan: str = Field(
        default="", description="The id of the target plan. Empty for a transfer between meshes."
    )
    levels: tuple[tuple[str, int], ...] = Field(
        description="The name and size of each level of the cluster, slowest first."
    )
    places: tuple[Place, ...] = Field(description="The meshes on devices of the cluster.")
    tensors: tuple[TensorTransfer, ...] = Field(description="The transfers of the tensors.")
    loads: tuple[DeviceLoad, ...] = Field(description="The load of each device.")
    needed_bytes: int = Field(description="The bytes that all targets hold after the transfer.")
    kept_bytes: int = Field(
        description="The bytes that stay in place. Every transfer moves at least `needed_bytes - "
        "kept_bytes`."
    )
    moved_bytes: int = Field(description="The bytes that move between devices.")
    sends: int = Field(description="The number of sends.")
    reduction_ns: Ns = Field(
        default=0,
        description="The time of the reductions before the transfer, in nanoseconds. It is a part "
        "of `ns`.",
    )
    ns: Ns = Field(description="The time of the transfer in nanoseconds.")
    busiest: BusiestLink | None = Field(
        default=None, description="The link that determines the time. None if nothing moves."
    )
    notes: tuple[str, ...] = Field(default=(), description="Remarks on the transfer, in sentences.")
