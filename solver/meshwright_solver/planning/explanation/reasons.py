"""Texts on why a strategy is not the plan's."""

from __future__ import annotations

from meshwright.schema import Cost
from meshwright.schema.explanation import Whole
from meshwright_solver.planning.explanation.fixed_mesh_problem import FixedMeshOutcome, Frame

GIB = 2.0**30
SHOWN = 3  # chosen: parts of a difference that a person reads
WORTH = 0.02  # chosen: of a difference; smaller parts are not shown


def ms(nanoseconds: float) -> str:
    """A time in milliseconds."""
    return f"{nanoseconds / 1e6:.3f} ms"


def dearer(one: Cost | Whole, other: Cost | Whole) -> str:
    """The parts of a step that take longer in one plan than in the other, largest first."""
    step_ns = one.step_ns - other.step_ns
    parts = {"compute": one.compute_ns - other.compute_ns}
    for kind in one.communication_ns:
        moved = one.communication_ns[kind] - other.communication_ns.get(kind, 0.0)
        parts[f"communication of {kind}s"] = moved
    total = sum(abs(ns) for ns in parts.values())
    largest = sorted(parts.items(), key=lambda part: -part[1])
    shown = [f"{name} {_signed(ns)}" for name, ns in largest if total and abs(ns) > WORTH * total][
        :SHOWN
    ]
    longer = f"the step takes {ms(abs(step_ns))} {'more' if step_ns >= 0 else 'less'}"
    extra_ns = one.objective_ns - other.objective_ns
    if step_ns < 0 <= extra_ns:
        longer += (
            f", the objective, in which communication counts hidden or not, {ms(extra_ns)} more"
        )
    return f"{longer} ({', '.join(shown)})" if shown else longer


def over(solved: FixedMeshOutcome, frame: Frame) -> str:
    """The reason for which no plan fits."""
    problem = frame.models.problem
    if solved.folded is not None:
        return (
            f"the best plan with it needs {solved.folded.over_bytes / GIB:.2f} GiB more than there "
            "is, with what passes by"
        )
    needed, limit = solved.outcome.minimum_memory_bytes, problem.memory_limit_bytes
    if needed is not None and needed > limit:
        return (
            f"memory: the leanest plan with it needs {needed / GIB:.2f} GiB, and there are "
            f"{limit / GIB:.2f} GiB beside what passes by"
        )
    return "what else the request says leaves no plan with it"


def _signed(nanoseconds: float) -> str:
    return f"{'+' if nanoseconds >= 0 else '−'}{ms(abs(nanoseconds))}"
