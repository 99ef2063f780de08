"""The simulation view of a plan's step: its numbers, a trace and memory curves."""

from __future__ import annotations

from meshwright.schema.canonical import canonical_json
from meshwright_service.common.zstd import pack
from meshwright_service.plan_views.memory_curve import curve_of
from meshwright_service.plan_views.view import PlanView, Sent, documents_in
from meshwright_solver.simulation.step import step_of
from meshwright_solver.simulation.summary import simulation_of
from meshwright_solver.simulation.trace import trace_of

NUMBERS, TRACE, CURVES = 0, 1, 2  # numbers of parts; from CURVES on, one part for each rank


def simulated(documents: Sent) -> dict[int, bytes]:
    """The parts as compressed JSON; raises PlanError for documents that do not match."""
    step = step_of(*documents_in(documents))
    ranks = range(step.program.schedule.ranks)
    curves = {CURVES + rank: curve_of(step, rank).model_dump_json() for rank in ranks}
    texts = {
        NUMBERS: simulation_of(step).to_json(),
        TRACE: canonical_json(trace_of(step)),
        **curves,
    }
    return {number: pack(text.encode()) for number, text in texts.items()}


SIMULATED = PlanView("simulated 2", simulated)
