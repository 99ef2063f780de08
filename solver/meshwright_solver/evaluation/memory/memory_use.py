"""Peak memory of a stage, from the memory peaks of its passes."""

from __future__ import annotations

from dataclasses import replace

from meshwright.schema import MemoryUse, Moment
from meshwright_solver.evaluation.accounting.half_batch_segments import LEG_BUCKETS
from meshwright_solver.evaluation.memory.peak import Moments, PassPeak
from meshwright_solver.strategies.fusion import BUCKET_BYTES

UPDATE = Moment(at="optimizer step")


def stage_peak(moments: Moments, in_flight: float, copies: int) -> Moment:
    """Peak memory of a stage that holds the saved values of `in_flight` microbatches.

    copies: microbatches that take turns; each is assumed to have the same transient memory at the
    peak.
    """
    others_bytes = _others_bytes(moments, in_flight)
    fullest = _with_copies(moments.fullest, moments, copies)
    return beside(fullest, others_bytes, moments.buffers_bytes)


def every_moment(
    moments: Moments, in_flight: float, copies: int, *, training: bool
) -> tuple[Moment, ...]:
    """Memory peak of every pass, and of the optimizer step in training."""
    others_bytes = _others_bytes(moments, in_flight)
    passes = [_with_copies(peak, moments, copies) for peak in moments.passes]
    maxima = [beside(peak, others_bytes, moments.buffers_bytes) for peak in passes]
    return (*maxima, UPDATE) if training else tuple(maxima)


def _others_bytes(moments: Moments, in_flight: float) -> int:
    return round(max(0.0, in_flight - 1) * moments.saved_bytes)


def _with_copies(peak: PassPeak, moments: Moments, copies: int) -> PassPeak:
    if copies == 1:
        return peak
    # saved values count with other microbatches; parameters and gradients of a leg stay for all
    stays = min(moments.gathered_bytes, LEG_BUCKETS * BUCKET_BYTES)
    return replace(
        peak,
        recomputed=copies * peak.recomputed,
        working=copies * peak.working,
        gathered=peak.gathered + stays,
    )


def beside(peak: PassPeak, others_bytes: int, buffers_bytes: int) -> Moment:
    """Memory peak of a pass together with the saved values of other microbatches."""
    return Moment(
        at=peak.at,
        activations=others_bytes + peak.saved,
        recomputed=peak.recomputed,
        working=peak.working,
        gathered=peak.gathered,
        buffers=buffers_bytes,
    )


def at_fullest(resting: MemoryUse, moment: Moment) -> MemoryUse:
    """Memory use of a stage at its peak. resting: memory at rest with all saved values.

    Saved values that are released before the peak offset the transient memory there, first the
    working values.
    """
    remaining_bytes = max(0, moment.total - resting.activations)
    part_bytes: dict[str, int] = {}
    for part in ("buffers", "gathered", "recomputed", "working"):
        part_bytes[part] = min(remaining_bytes, getattr(moment, part))
        remaining_bytes -= part_bytes[part]
    part_bytes["working"] += remaining_bytes
    return resting.model_copy(update={**part_bytes, "moment": moment.at})
