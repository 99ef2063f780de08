"""Transfers: how tensors get from one mesh to another by sends and receives.

A transfer moves tensors between two plans (a checkpoint, other device counts included) or between
two stages. The document holds totals and, for tensors that move alike, the two layouts and the
turn from which every send follows; the sends of one device are a `DeviceTransfer`. A list of all
sends would be millions of lines, of which each device needs its own.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.layout import Layout
from meshwright.schema.mesh import Mesh
from meshwright.schema.model import Document, Model, Ns
from meshwright.schema.step import Step

TransferState = Literal["value", "gradient", "optimizer"]
MovedStates = Literal["value", "optimizer", "all"]  # what of a plan's parameters moves


class Stretch(Model):
    """`count` runs of `length` indices of a dim of the whole tensor, one every `step`."""

    first: int = Field(ge=0)
    length: int = Field(ge=1)
    step: int = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1)


class Piece(Model):
    """A box of each of `tensors`: the product of its stretches, dim by dim.

    source, target: the devices; where they are one, the piece stays. wave: 1, or 2 where the source
    passes on what it gets in wave 1; 0 stays. bytes: of one tensor. A device holds its part of a
    tensor with the indices of every dim ascending.
    """

    tensors: tuple[str, ...]
    state: TransferState
    source: int
    target: int
    wave: int = Field(ge=0, le=2)
    dims: tuple[tuple[Stretch, ...], ...]
    bytes: int


class Fill(Model):
    """Tensors of which a device holds nothing but the neutral element of their reduction."""

    tensors: tuple[str, ...]
    state: TransferState
    value: Literal["zero", "lowest"]


class DeviceTransfer(Document):
    """What one device sends, receives, keeps in place and fills."""

    prefix: ClassVar[str] = "sends"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    device: int
    sends: tuple[Piece, ...] = ()
    receives: tuple[Piece, ...] = ()
    keeps: tuple[Piece, ...] = ()
    fills: tuple[Fill, ...] = ()


class Place(Model):
    """A mesh on devices of the cluster: `devices` lists them in the order of the ranks, as
    stretches (first, count)."""

    mesh: Mesh
    devices: tuple[tuple[int, int], ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The device of every rank."""
        return tuple(first + k for first, count in self.devices for k in range(count))


class TensorTransfer(Model):
    """Tensors that move alike.

    source_place, target_place: positions in the transfer's places. reduction: steps on the source
    mesh before anything is sent, where the source is partial; what they leave is sent. turn: the
    k-th tensor is sent by the holders `turn + k` places further round, so that replicas share the
    work. Bytes and sends are over all of the tensors.
    """

    tensors: tuple[str, ...]
    state: TransferState
    element_bytes: int
    source: Layout
    source_place: int
    target: Layout
    target_place: int
    reduction: tuple[Step, ...] = ()
    turn: int = 0
    moved_bytes: int
    kept_bytes: int
    sends: int

    @property
    def sent(self) -> Layout:
        """The layout that is sent from."""
        return self.reduction[-1].to if self.reduction else self.source


class DeviceLoad(Model):
    """Bytes of each of `count` consecutive devices."""

    first: int
    count: int
    sent_bytes: int
    received_bytes: int
    kept_bytes: int


class BusiestLink(Model):
    """The link that decides the time: of `device`, out of it or into it, over a level."""

    level: str
    device: int
    direction: Literal["out", "in"]
    bytes: int


class Transfer(Document):
    """All tensors from one mesh, or one plan, to another.

    levels: name and size of the cluster's levels, slowest first. needed_bytes: held by all targets
    afterwards; kept_bytes of them are there already, so that no transfer moves fewer than
    needed_bytes - kept_bytes. reduction_ns is part of ns.
    """

    prefix: ClassVar[str] = "transfer"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    from_plan: str = ""
    to_plan: str = ""
    levels: tuple[tuple[str, int], ...]
    places: tuple[Place, ...]
    tensors: tuple[TensorTransfer, ...]
    loads: tuple[DeviceLoad, ...]
    needed_bytes: int
    kept_bytes: int
    moved_bytes: int
    sends: int
    reduction_ns: Ns = 0
    ns: Ns
    busiest: BusiestLink | None = None
    notes: tuple[str, ...] = ()
