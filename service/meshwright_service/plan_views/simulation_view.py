"""The simulation view of a plan's step: its numbers, a trace and memory curves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import BaseModel

from meshwright.schema.canonical import canonical_json
from meshwright_service.common.zstd import pack
from meshwright_service.plan_views.view import PlanView, Sent, documents_in
from meshwright_solver.simulation.step import SimulatedStep, step_of
from meshwright_solver.simulation.summary import simulation_of
from meshwright_solver.simulation.trace import trace_of

NUMBERS, TRACE, CURVES = 0, 1, 2  # numbers of parts; from CURVES on, one part for each rank
MOST_POINTS = 4000  # of a curve; chosen: more than the columns of a screen


class RankCurve(BaseModel):
    """Bytes on the fullest device of a rank over one simulated step, from each time in `ns` on.

    static_bytes: allocated all the time. saved_bytes: saved for backward passes. working_bytes:
    transient memory. A point shows the peak of its interval.
    """

    rank: int
    static_bytes: int
    ns: tuple[float, ...]
    saved_bytes: tuple[int, ...]
    working_bytes: tuple[int, ...]

    def shown(self, points: int) -> RankCurve:
        """The curve with at most `points` points."""
        saved, working = np.array(self.saved_bytes), np.array(self.working_bytes)
        chosen = _peaks(saved + working, points).tolist()
        return RankCurve(
            rank=self.rank,
            static_bytes=self.static_bytes,
            ns=tuple(self.ns[place] for place in chosen),
            saved_bytes=tuple(self.saved_bytes[place] for place in chosen),
            working_bytes=tuple(self.working_bytes[place] for place in chosen),
        )


def simulated(documents: Sent) -> dict[int, bytes]:
    """The parts as compressed JSON; raises PlanError for documents that do not match."""
    step = step_of(*documents_in(documents))
    ranks = range(step.program.schedule.ranks)
    curves = {CURVES + rank: _curve(step, rank).model_dump_json() for rank in ranks}
    texts = {
        NUMBERS: simulation_of(step).to_json(),
        TRACE: canonical_json(trace_of(step)),
        **curves,
    }
    return {number: pack(text.encode()) for number, text in texts.items()}


SIMULATED = PlanView("simulated 1", simulated)


def _curve(step: SimulatedStep, rank: int) -> RankCurve:
    curve = step.curve(rank)
    shown = _peaks(curve.total, MOST_POINTS)
    return RankCurve(
        rank=rank,
        static_bytes=step.static_bytes(rank),
        ns=tuple(curve.ns[shown].tolist()),
        saved_bytes=tuple(np.round(curve.saved[shown]).astype(np.int64).tolist()),
        working_bytes=tuple(np.round(curve.working[shown]).astype(np.int64).tolist()),
    )


def _peaks(total: np.ndarray[Any, Any], points: int) -> np.ndarray[Any, Any]:
    """The index of the peak in each of `points` intervals of about equal length."""
    if len(total) <= points:
        return np.arange(len(total))
    edges = np.linspace(0, len(total), points + 1).astype(np.int64)
    return np.array([a + int(np.argmax(total[a:b])) for a, b in pairwise(edges.tolist())])
