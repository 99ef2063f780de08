"""Memory of a pipeline rank over a simulated step, in the parts of a plan's memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from pydantic import BaseModel, Field

from meshwright.schema import MemoryUse, Plan
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.memory.holding_tables import HoldingKind
from meshwright_solver.simulation.memory import task_text
from meshwright_solver.simulation.step import SimulatedStep

MOST_POINTS = 4000  # of a curve; chosen: more than the columns of a screen
STATIC = ("parameters", "gradients", "optimizer", "cache")
TRANSIENT = {
    "activations": HoldingKind.SAVED,
    "recomputed": HoldingKind.RECOMPUTED,
    "working": HoldingKind.WORKING,
    "gathered": HoldingKind.GATHERED,
}


class MemoryPeak(BaseModel):
    """The first peak of a rank in a simulated step."""

    ns: float = Field(description="The time of the peak, in nanoseconds.")
    bytes: int = Field(description="The memory in use with the reserve, in bytes.")
    at: str = Field(description="The pass and the name of the op that runs.")
    op: str = Field(description="The name of the op.")
    stage: int = Field(description="The stage of the op.")
    microbatch: int = Field(description="The microbatch of the pass.")


class RankCurve(BaseModel):
    """Memory of the fullest device of a rank over one simulated step, from each time in `ns` on.

    A point shows the peak of its interval. `static_parts`, `parts` and `reserved_bytes` add up to
    the memory in use.
    """

    rank: int = Field(description="The pipeline rank.")
    step_ns: float = Field(description="The end of the step, in nanoseconds.")
    capacity_bytes: int = Field(description="The memory of the device, in bytes.")
    reserved_bytes: int = Field(description="The memory that is left free, in bytes.")
    static_bytes: int = Field(description="The memory allocated all the time, in bytes.")
    static_parts: dict[str, int] = Field(
        description="`static_bytes` in parts: parameters, gradients, optimizer, cache, buffers."
    )
    ns: tuple[float, ...] = Field(description="The times, in nanoseconds.")
    saved_bytes: tuple[int, ...] = Field(description="Activations saved for backward passes.")
    working_bytes: tuple[int, ...] = Field(description="All other transient memory.")
    parts: dict[str, tuple[int, ...]] = Field(
        description="The transient memory in parts: activations (as `saved_bytes`), recomputed, "
        "working, gathered."
    )
    peak: MemoryPeak | None = Field(description="The first peak. None: no op runs.")

    def shown(self, points: int) -> RankCurve:
        """The curve with at most `points` points; the first is the begin of the step."""
        total = np.array(self.saved_bytes) + np.array(self.working_bytes)
        chosen = _peaks(total, points).tolist()

        def of(values: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(values[place] for place in chosen)

        return self.model_copy(
            update={
                "ns": tuple(self.ns[place] for place in chosen),
                "saved_bytes": of(self.saved_bytes),
                "working_bytes": of(self.working_bytes),
                "parts": {name: of(values) for name, values in self.parts.items()},
            }
        )


def curve_of(step: SimulatedStep, rank: int) -> RankCurve:
    """The memory curve of a rank."""
    curve = step.curve(rank)
    shown = _peaks(curve.total, MOST_POINTS)
    uses = uses_of(step.plan, rank)
    static = {name: sum(getattr(use, name) for use in uses) for name in STATIC}
    static["buffers"] = step.buffers_bytes(rank)
    reserved, peak = uses[0].reserved, None
    if curve.tasks[curve.peak] >= 0:
        place, task = step.program.task(rank, int(curve.tasks[curve.peak]))
        peak = MemoryPeak(
            ns=float(curve.ns[curve.peak]),
            bytes=sum(static.values()) + reserved + int(curve.total[curve.peak]),
            at=task_text(task),
            op=task.name,
            stage=place.stage,
            microbatch=place.microbatch,
        )
    return RankCurve(
        rank=rank,
        step_ns=step.ns,
        capacity_bytes=uses[0].capacity or step.plan.cost.memory_bytes.capacity,
        reserved_bytes=reserved,
        static_bytes=sum(static.values()),
        static_parts=static,
        ns=tuple(curve.ns[shown].tolist()),
        saved_bytes=tuple(curve.saved[shown].tolist()),
        working_bytes=tuple(curve.working[shown].tolist()),
        parts={name: tuple(curve.of(kind)[shown].tolist()) for name, kind in TRANSIENT.items()},
        peak=peak,
    )


def uses_of(plan: Plan, rank: int) -> list[MemoryUse]:
    """The peak memory of every stage of a rank, each alone."""
    if plan.schedule is None:
        return [plan.cost.memory_bytes]
    stages = [stage for stage in plan.stages if stage.pipeline_rank == rank]
    return [stage.memory_bytes or MemoryUse() for stage in stages]


def _peaks(total: IntArray, points: int) -> IntArray:
    """The first place, and the place of the peak in each of `points` - 1 equal intervals."""
    if len(total) <= points:
        return np.arange(len(total))
    edges = np.linspace(1, len(total), max(2, points)).astype(np.int64).tolist()
    return np.array([0, *(a + int(np.argmax(total[a:b])) for a, b in pairwise(edges))])
