"""What the moments of a stage come to: the most that it takes at one time, and when."""

from __future__ import annotations

from dataclasses import replace

from meshwright.schema import MemoryUse, Moment
from meshwright_solver.evaluation.accounting.half_batch_segments import LEG_BUCKETS
from meshwright_solver.evaluation.memory.peak import Moments, PassPeak
from meshwright_solver.strategies.fusion import BUCKET_BYTES

UPDATE = Moment(at="optimizer step")


def alone(moments: Moments, in_flight: float, copies: int) -> Moment:
    """The fullest moment of a stage that holds what so many microbatches saved.

    copies: microbatches that take turns are taken to pass by as much as each other at that time.
    """
    others_bytes = _others_bytes(moments, in_flight)
    fullest = _of_all(moments.fullest, moments, copies)
    return beside(fullest, others_bytes, moments.buffers_bytes)


def every_moment(
    moments: Moments, in_flight: float, copies: int, *, training: bool
) -> tuple[Moment, ...]:
    """The fullest of every pass, and of what comes once a step."""
    others_bytes = _others_bytes(moments, in_flight)
    passes = [_of_all(own, moments, copies) for own in moments.passes]
    found = [beside(own, others_bytes, moments.buffers_bytes) for own in passes]
    return (*found, UPDATE) if training else tuple(found)


def _others_bytes(moments: Moments, in_flight: float) -> int:
    return round(max(0.0, in_flight - 1) * moments.saved_bytes)


def _of_all(own: PassPeak, moments: Moments, copies: int) -> PassPeak:
    if copies == 1:
        return own
    # what is saved counts among the others'; parameters and gradients of a leg stay for all
    stays = min(moments.gathered_bytes, LEG_BUCKETS * BUCKET_BYTES)
    return replace(
        own,
        recomputed=copies * own.recomputed,
        working=copies * own.working,
        gathered=own.gathered + stays,
    )


def beside(own: PassPeak, others_bytes: int, buffers_bytes: int) -> Moment:
    """A moment, with what other microbatches hold meanwhile."""
    return Moment(
        at=own.at,
        activations=others_bytes + own.saved,
        recomputed=own.recomputed,
        working=own.working,
        gathered=own.gathered,
        buffers=buffers_bytes,
    )


def at_fullest(resting: MemoryUse, moment: Moment) -> MemoryUse:
    """resting: what a stage holds, with all that it saves. Of what a moment takes beside, what was
    saved and is let go of by then makes room: first for what passes from op to op."""
    left = max(0, moment.total - resting.activations)
    found: dict[str, int] = {}
    for part in ("buffers", "gathered", "recomputed", "working"):
        found[part] = min(left, getattr(moment, part))
        left -= found[part]
    found["working"] += left
    return resting.model_copy(update={**found, "moment": moment.at})
