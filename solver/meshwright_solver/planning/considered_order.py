"""The order of considered configurations, and those on the front of step time and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.schema import Considered, Plan
from meshwright_solver.stage.mesh_alternatives import compared

_FITS = (
    "takes ",
    "estimated to take ",
)  # how `why` begins where nothing but the time is against it


def with_considered_order(plan: Plan) -> Plan:
    """The plan with its considered configurations in order, with their front and their ratios."""
    ratios = [compared(each, plan.cost.step_ns) for each in plan.search.considered]
    considered = in_order(ratios, plan.cost.memory_bytes.total)
    if considered == plan.search.considered:
        return plan
    search = plan.search.model_copy(update={"considered": considered})
    return plan.model_copy(update={"search": search})


def in_order(considered: Sequence[Considered], plan_bytes: int) -> tuple[Considered, ...]:
    """Configurations that fit by their step, then the others in the given order.

    On the front are those that need less memory than the plan and all faster ones.
    """
    fitting = sorted((each for each in considered if fits(each)), key=step_ns)
    others = [_marked(each, on_front=False) for each in considered if not fits(each)]
    return (*_with_front(fitting, plan_bytes), *others)


def fits(considered: Considered) -> bool:
    """Whether a configuration fits in memory and keeps all wishes, as far as is known."""
    return considered.why.startswith(_FITS)


def step_ns(considered: Considered) -> float:
    """The step of a configuration, planned or estimated."""
    return considered.estimated_ns if considered.cost_ns is None else considered.cost_ns


def _with_front(fitting: Sequence[Considered], least: int) -> Iterator[Considered]:
    for considered in fitting:
        size = considered.memory_bytes
        on_front = size is not None and size < least
        if size is not None:
            least = min(least, size)
        yield _marked(considered, on_front=on_front)


def _marked(considered: Considered, *, on_front: bool) -> Considered:
    if considered.on_front == on_front:
        return considered
    return considered.model_copy(update={"on_front": on_front})
