"""The communication of a plan: redistributions and collectives inside ops, folded over repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshwright.common.name_ranges import fold, pattern
from meshwright.reports.ops import OpShare
from meshwright.schema import Plan, Redistribution
from meshwright.schema.communication import Communication, CommunicationGroup
from meshwright.schema.mesh import Axis

INSIDE = "inside the op"  # traffic of the collectives that an op needs itself
_LOCAL = ("slice", "mask")
_BETWEEN_STAGES = "send"


@dataclass(frozen=True, slots=True)
class _Call:
    """A collective of a step. count: how often it runs in a step."""

    kind: str
    axes: tuple[Axis, ...]
    payload_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class _Move:
    """A redistribution, or the collectives inside an op."""

    share: OpShare
    tensor: str
    reader: str | None
    traffic: str
    calls: tuple[_Call, ...]
    ns: float
    counted_ns: float


def communication_of(plan: Plan, shares: Sequence[OpShare]) -> Communication:
    """The communication of a plan. shares: of its ops (`meshwright.reports.ops.shares_of`)."""
    moves = [move for share in shares for move in _moves(share, plan.microbatches)]
    repeats = fold((move.tensor, _meaning(move), move) for move in moves)
    groups = [_group(plan, repeat.label, repeat.items) for repeat in repeats]
    groups.sort(key=lambda group: -group.ns)
    return Communication(
        plan=plan.id,
        step_ns=plan.cost.step_ns,
        communication_ns=plan.cost.communication_ns,
        exposed_ns=plan.cost.exposed_ns,
        groups=tuple(groups),
    )


def _moves(share: OpShare, microbatches: int) -> Iterator[_Move]:
    inside = [step for step in share.own.own_steps if step.kind != _BETWEEN_STAGES]
    if inside:
        calls = tuple(
            _Call(step.kind, step.axes, step.payload_bytes, microbatches) for step in inside
        )
        ns = share.own.communication_ns
        yield _Move(share, share.own.op, None, INSIDE, calls, ns, ns)
    for move in share.moves:
        calls = tuple(_calls(move, microbatches))
        if calls:
            yield _Move(share, move.tensor, move.op, move.traffic, calls, move.ns, move.counted_ns)


def _calls(move: Redistribution, microbatches: int) -> Iterator[_Call]:
    for steps, count in (
        (move.forward, microbatches * (1 + move.again)),
        (move.backward, microbatches),
        (move.per_step, 1),
    ):
        for step in steps:
            if step.kind not in _LOCAL:
                yield _Call(step.kind, step.axes, step.payload_bytes, count)


def _meaning(move: _Move) -> tuple[object, ...]:
    return move.traffic, pattern(move.reader or ""), pattern(move.share.module), move.calls


def _group(plan: Plan, label: str, moves: Sequence[_Move]) -> CommunicationGroup:
    first = moves[0]
    mesh = plan.stages[first.share.stage].mesh
    level_of = {axis.name: axis.level for axis in mesh.axes}
    axes = tuple(dict.fromkeys(axis for call in first.calls for axis in call.axes))
    calls = [call for move in moves for call in move.calls]
    ranks = len({stage.ranks_from for stage in plan.stages})
    return CommunicationGroup(
        tensor=label,
        count=len(moves),
        reader=None if first.reader is None else pattern(first.reader),
        op=first.share.own.op,
        module=pattern(first.share.module),
        traffic=first.traffic,
        stages=tuple(sorted({move.share.stage for move in moves})),
        collectives=tuple(dict.fromkeys(call.kind for call in first.calls)),
        axes=axes,
        levels=tuple(dict.fromkeys(level_of.get(axis, axis) for axis in axes)),
        call_bytes=max(call.payload_bytes for call in calls),
        step_bytes=sum(call.payload_bytes * call.count for call in calls) // ranks,
        calls=-(-sum(call.count for call in calls) // ranks),
        ns=sum(move.ns for move in moves) / ranks,
        counted_ns=sum(move.counted_ns for move in moves) / ranks,
    )
