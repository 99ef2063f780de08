"""Facts of a drawn op, and the collectives on an edge."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from meshwright.reports.ops import Lying, OpShare, received
from meshwright.schema import Redistribution
from meshwright.schema.mesh import Axis
from meshwright.schema.stage import Direction


class ParameterLayouts(BaseModel):
    """A parameter of an op, with the layouts of its value, gradient and optimizer state."""

    tensor: str
    value: str
    gradient: str | None = None
    optimizer: str | None = None
    resting_bytes: int


class OpTensor(BaseModel):
    """A tensor that an op makes or reads.

    axes: the mesh axes on each dim; None if any device can make or load any part.
    """

    tensor: str
    axes: tuple[tuple[str, ...], ...] | None = None
    partial: tuple[str, ...] = ()


class OpFacts(BaseModel):
    """An op. Times are of a step. saved_bytes: saved for the backward pass of one microbatch.
    parameter_bytes: of values, gradients and optimizer states. axes: that shard its outputs."""

    compute_ns: float
    communication_ns: float
    saved_bytes: int
    parameter_bytes: int
    axes: tuple[str, ...] = ()
    op: str
    op_kind: str
    stage: int
    strategy: dict[str, tuple[Axis, ...]]
    read: tuple[OpTensor, ...] = ()
    made: tuple[OpTensor, ...] = ()
    parameters: tuple[ParameterLayouts, ...] = ()


class Moved(BaseModel):
    """A collective on an edge: forward, backward or once a step. payload_bytes: of one run. ns: of
    one run; of a send between stages, of all runs in a step."""

    tensor: str
    collective: str
    axes: tuple[str, ...]
    direction: Direction
    payload_bytes: int
    ns: float


def facts_of(share: OpShare) -> OpFacts:
    """The facts of an op."""
    op = share.own
    return OpFacts(
        compute_ns=op.compute_ns,
        communication_ns=share.communication_ns,
        saved_bytes=share.saved_bytes,
        parameter_bytes=share.parameter_bytes,
        axes=tuple(sorted(axes_of(share))),
        op=op.op,
        op_kind=op.kind,
        stage=share.stage,
        strategy={factor: on for factor, on in op.strategy.items() if on},
        read=_op_tensors(share.inputs),
        made=_op_tensors(share.outputs),
        parameters=_parameter_layouts(share),
    )


def axes_of(share: OpShare) -> set[str]:
    """The mesh axes that shard an output of an op."""
    return {axis for lying in share.outputs for dim in lying.axes or () for axis in dim}


def moved_by(move: Redistribution) -> Iterator[Moved]:
    """The collectives of a redistribution: forward, backward, then once a step."""
    for direction, steps in move.steps_by_direction:
        for step in steps:
            yield Moved(
                tensor=move.tensor,
                collective=step.kind,
                axes=step.axes,
                direction=direction,
                payload_bytes=step.payload_bytes,
                ns=step.ns,
            )


def sent_to(share: OpShare) -> Iterator[Moved]:
    """The sends between stages of an op: its activation and its gradient."""
    for step in share.own.own_steps:
        if step.what in ("receive", "return"):
            yield Moved(
                tensor=received(share.own) or "",
                collective="send",
                axes=step.axes,
                direction=step.direction,
                payload_bytes=step.payload_bytes,
                ns=step.ns,
            )


def _op_tensors(tensors: tuple[Lying, ...]) -> tuple[OpTensor, ...]:
    return tuple(
        OpTensor(
            tensor=lying.tensor,
            axes=lying.axes,
            partial=() if lying.layout is None else tuple(sorted(lying.layout.partial)),
        )
        for lying in tensors
    )


def _parameter_layouts(share: OpShare) -> tuple[ParameterLayouts, ...]:
    return tuple(
        ParameterLayouts(
            tensor=parameter.tensor,
            value=str(parameter.value),
            gradient=None if parameter.gradient is None else str(parameter.gradient),
            optimizer=None if parameter.optimizer is None else str(parameter.optimizer),
            resting_bytes=parameter.value_bytes
            + parameter.gradient_bytes
            + parameter.optimizer_bytes,
        )
        for parameter in share.parameters
    )
