"""What is worked out of a plan's step: numbers, a trace, curves of memory."""

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

NUMBERS, TRACE, CURVES = 0, 1, 2  # parts by number; from CURVES on one for each rank
MOST_POINTS = 4000  # of a curve; chosen: more than a screen has columns


class RankCurve(BaseModel):
    """Bytes on a rank's fullest device over one simulated step, from each time on: static all the
    time, saved for backward passes, working what else comes and goes. Of several moments between
    two points the fullest is shown."""

    rank: int
    static_bytes: int
    ns: tuple[float, ...]
    saved_bytes: tuple[int, ...]
    working_bytes: tuple[int, ...]

    def shown(self, points: int) -> RankCurve:
        """The same in so many points at most."""
        saved, working = np.array(self.saved_bytes), np.array(self.working_bytes)
        chosen = _fullest(saved + working, points).tolist()
        return RankCurve(
            rank=self.rank,
            static_bytes=self.static_bytes,
            ns=tuple(self.ns[place] for place in chosen),
            saved_bytes=tuple(self.saved_bytes[place] for place in chosen),
            working_bytes=tuple(self.working_bytes[place] for place in chosen),
        )


def simulated(documents: Sent) -> dict[int, bytes]:
    """The parts: JSON, packed. Raises PlanError where the documents do not fit."""
    step = step_of(*documents_in(documents))
    ranks = range(step.program.schedule.ranks)
    curves = {CURVES + rank: _curve(step, rank).model_dump_json() for rank in ranks}
    made = {NUMBERS: simulation_of(step).to_json(), TRACE: canonical_json(trace_of(step)), **curves}
    return {number: pack(text.encode()) for number, text in made.items()}


SIMULATED = PlanView("simulated 1", simulated)


def _curve(step: SimulatedStep, rank: int) -> RankCurve:
    curve = step.curve(rank)
    shown = _fullest(curve.total, MOST_POINTS)
    return RankCurve(
        rank=rank,
        static_bytes=step.static_bytes(rank),
        ns=tuple(curve.ns[shown].tolist()),
        saved_bytes=tuple(np.round(curve.saved[shown]).astype(np.int64).tolist()),
        working_bytes=tuple(np.round(curve.working[shown]).astype(np.int64).tolist()),
    )


def _fullest(total: np.ndarray[Any, Any], points: int) -> np.ndarray[Any, Any]:
    """Places of the fullest of so many stretches of about equal length, in order."""
    if len(total) <= points:
        return np.arange(len(total))
    edges = np.linspace(0, len(total), points + 1).astype(np.int64)
    return np.array([a + int(np.argmax(total[a:b])) for a, b in pairwise(edges.tolist())])
