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
    fullest = _with_copies(moments.fullest, moments, copies)
    return beside(fullest, others_bytes, moments.buffers_bytes)


def every_moment(
    moments: Moments, in_flight: float, copies: int, *, training: bool
) -> tuple[Moment, ...]:
    """The fullest of every pass, and of what comes once a step."""
    others_bytes = _others_bytes(moments, in_flight)
    passes = [_with_copies(peak, moments, copies) for peak in moments.passes]
    maxima = [beside(peak, others_bytes, moments.buffers_bytes) for peak in passes]
    return (*maxima, UPDATE) if training else tuple(maxima)


def _others_bytes(moments: Moments, in_flight: float) -> int:
    return round(max(0.0, in_flight - 1) * moments.saved_bytes)


def _with_copies(peak: PassPeak, moments: Moments, copies: int) -> PassPeak:
    if copies == 1:
        return peak
    # what is saved counts among the others'; parameters and gradients of a leg stay for all
    stays = min(moments.gathered_bytes, LEG_BUCKETS * BUCKET_BYTES)
    return replace(
        peak,
        recomputed=copies * peak.recomputed,
        working=copies * peak.working,
        gathered=peak.gathered + stays,
    )


def beside(peak: PassPeak, others_bytes: int, buffers_bytes: int) -> Moment:
    """A moment, with what other microbatches hold meanwhile."""
    return Moment(
        at=peak.at,
        activations=others_bytes + peak.saved,
        recomputed=peak.recomputed,
        working=peak.working,
        gathered=peak.gathered,
        buffers=buffers_bytes,
    )


def at_fullest(resting: MemoryUse, moment: Moment) -> MemoryUse:
    """resting: what a stage holds, with all that it saves. Of what a moment takes beside, what was
    saved and is let go of by then makes room: first for what passes from op to op."""
    remaining_bytes = max(0, moment.total - resting.activations)
    part_bytes: dict[str, int] = {}
    for part in ("buffers", "gathered", "recomputed", "working"):
        part_bytes[part] = min(remaining_bytes, getattr(moment, part))
        remaining_bytes -= part_bytes[part]
    part_bytes["working"] += remaining_bytes
    return resting.model_copy(update={**part_bytes, "moment": moment.at})
