"""Communication of a plan: its redistributions and collectives, folded over repeats."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model, Ns


class CommunicationGroup(Model):
    """Redistributions of repeated tensors that are equal but for their names.

    Bytes, calls and times are those of one device for a step, of all repeats; in a pipeline the
    mean of the ranks.
    """

    tensor: str = Field(description="A pattern of the names of the tensors, or of the ops.")
    count: int = Field(ge=1, description="The number of redistributions.")
    reader: str | None = Field(
        default=None, description="A pattern of the readers. None: all readers, or inside the op."
    )
    op: str = Field(description="The name of the op of the first redistribution.")
    module: str = Field(description="A pattern of the modules of the ops.")
    traffic: str = Field(description="The kind of the traffic.")
    stages: tuple[int, ...] = Field(description="The numbers of the stages.")
    collectives: tuple[str, ...] = Field(description="The kinds of the collectives.")
    axes: tuple[Axis, ...] = Field(description="The mesh axes of the groups.")
    levels: tuple[str, ...] = Field(description="The levels of the topology that the axes cross.")
    call_bytes: int = Field(ge=0, description="The payload of the largest collective, in bytes.")
    step_bytes: int = Field(ge=0, description="The payloads of all collectives, in bytes.")
    calls: int = Field(ge=0, description="The number of collectives.")
    ns: Ns = Field(description="The time in nanoseconds.")
    counted_ns: Ns = Field(description="The part of the time that the objective includes.")


class Communication(Document):
    """All communication of a plan between the devices of its stages, longest first.

    Transfers between pipeline stages are not part of it.
    """

    prefix: ClassVar[str] = "comm"
    error: ClassVar[type[InvalidInput]] = PlanError

    plan: str = Field(description="The id of the plan.")
    step_ns: Ns = Field(description="The time of a step in nanoseconds.")
    communication_ns: dict[str, float] = Field(
        description="The communication time of a step by traffic, in nanoseconds."
    )
    exposed_ns: dict[str, float] = Field(
        description="The part of it that computation does not hide, by traffic."
    )
    groups: tuple[CommunicationGroup, ...] = Field(description="The groups, longest first.")
