"""Execution order of one microbatch on a device.

forward     every op, in the order of the graph
backward    the ops in reverse; gradients of inputs, then of weights. Recomputation of a
            segment precedes the first of its ops
weights     if the schedule splits the backward pass: gradients of weights only
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from meshwright_solver.common.arrays import IntArray


class OpEvent(IntEnum):
    """Kinds of events.

    SENT and GIVEN belong to no op: SENT follows the last forward event, GIVEN precedes the first
    backward event. PASSED is the place after INPUTS.
    """

    FORWARD = 0
    AGAIN = 1
    INPUTS = 2
    WEIGHTS = 3
    SENT = 4
    GIVEN = 5
    PASSED = 6


@dataclass(frozen=True, slots=True)
class EventOrder:
    """Events in execution order.

    at[event, position]: the place of an event of an op, or -1. kinds, positions: by place. passes:
    the first place of each pass, and the end of the last.
    """

    at: IntArray
    kinds: IntArray
    positions: IntArray
    passes: tuple[int, ...]

    def place(self, event: OpEvent, position: int) -> int:
        return int(self.at[event, position])


@dataclass(frozen=True, slots=True)
class Segments:
    """Recompute segments. again: positions of recomputed ops. segment_of: segment of every op in
    one."""

    again: Collection[int] = ()
    segment_of: Mapping[int, int] = field(default_factory=dict)


def order_of(
    positions: IntArray,
    *,
    training: bool,
    split: bool = False,
    segments: Segments | None = None,
) -> EventOrder:
    """Execution order of ops. positions: ascending."""
    count = len(positions)
    kinds = [np.full(count, OpEvent.FORWARD), np.array([OpEvent.SENT])]
    ops = [positions, np.array([0])]
    passes = [0, count + 1]
    if training:
        backward_kinds, backward_ops = _backward(positions, split, segments or Segments())
        kinds += [np.array([OpEvent.GIVEN]), backward_kinds]
        ops += [np.array([0]), backward_ops]
        passes.append(passes[-1] + 1 + len(backward_ops))
        if split:
            kinds.append(np.full(count, OpEvent.WEIGHTS))
            ops.append(positions[::-1])
            passes.append(passes[-1] + count)
    all_kinds, all_ops = np.concatenate(kinds), np.concatenate(ops)
    at = np.full((len(OpEvent), int(positions.max(initial=0)) + 1), -1, dtype=np.int64)
    at[all_kinds, all_ops] = np.arange(len(all_ops))
    for event in (OpEvent.SENT, OpEvent.GIVEN):
        at[event] = at[event, 0]
    at[OpEvent.PASSED] = np.where(at[OpEvent.INPUTS] < 0, -1, at[OpEvent.INPUTS] + 1)
    return EventOrder(at, all_kinds, all_ops, tuple(passes))


def _backward(positions: IntArray, split: bool, segments: Segments) -> tuple[IntArray, IntArray]:
    """Kinds and positions of the backward pass, without weights if it is split."""
    halves = [OpEvent.INPUTS] if split else [OpEvent.INPUTS, OpEvent.WEIGHTS]
    if not segments.again:
        return (
            np.tile(np.array(halves, dtype=np.int64), len(positions)),
            np.repeat(positions[::-1], len(halves)),
        )
    again: dict[int, list[int]] = {}
    for position in positions.tolist():
        if position in segments.again:
            again.setdefault(segments.segment_of[position], []).append(position)
    kinds: list[int] = []
    ops: list[int] = []
    for position in reversed(positions.tolist()):
        recomputed = again.pop(segments.segment_of.get(position, -1), [])
        kinds += [OpEvent.AGAIN] * len(recomputed) + halves
        ops += [*recomputed, *[position] * len(halves)]
    return np.array(kinds, dtype=np.int64), np.array(ops, dtype=np.int64)
