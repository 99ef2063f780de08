"""Solutions of cost graphs as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from meshwright.common.units import show_share
from meshwright.schema.cost_graph import CostGraphSolution

FEW = 100  # chosen: the most strategies of a choice that are printed


def render_cost_graph_solution(solution: CostGraphSolution, *, seconds: float) -> Text:
    """The results of a search, one per line; `seconds` is its duration."""
    return Text("\n".join(f"{name:<8}{text}" for name, text in _lines(solution, seconds)))


def show_cost(cost: float) -> str:
    """A cost or a usage in the unit of the file, with all digits before the point."""
    return f"{cost:,.0f}" if cost.is_integer() or abs(cost) >= 1e5 else f"{cost:,.6g}"


def show_progress(cost: float | None, bound: float | None) -> str:
    """The best cost, the lower bound and the gap between them, as far as known."""
    parts = [] if cost is None else [f"best {show_cost(cost)}"]
    if bound is not None:
        parts.append(f"bound {show_cost(bound)}")
        if cost:
            parts.append(f"gap {show_share(max(0.0, (cost - bound) / abs(cost)))}")
    return ", ".join(parts)


def _lines(solution: CostGraphSolution, seconds: float) -> Iterator[tuple[str, str]]:
    engines = " then ".join(solution.engines)
    yield "status", f"{solution.status} ({engines}, {seconds:.1f} s)"
    if solution.cost is not None:
        yield "cost", show_cost(solution.cost)
    if solution.lower_bound is not None:
        gap = "" if solution.gap is None else f" (gap {show_share(solution.gap)})"
        yield "bound", f"{show_cost(solution.lower_bound)}{gap}"
    if solution.peak_usage is not None:
        limit = "no limit" if solution.usage_limit is None else show_cost(solution.usage_limit)
        when = "" if solution.peak_time is None else f", first at time {solution.peak_time}"
        yield "usage", f"{show_cost(solution.peak_usage)} of {limit}{when}"
    if solution.choice is not None:
        yield "choice", _choice(solution.choice)
    for note in solution.notes:
        yield "note", note


def _choice(choice: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, choice[:FEW]))
    if len(choice) <= FEW:
        return f"[{shown}]"
    return f"[{shown}, ...]: {len(choice):,} nodes; -o FILE writes all"
