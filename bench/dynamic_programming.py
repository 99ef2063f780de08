"""`python -m bench.dynamic_programming`: medians of the exact search on made-up transformers.

Each time stands beside its ratio to a fixed numpy loop (a min-plus product of two 200 x 200
matrices, row by row), so that tables from different machines can be compared. The last lines say
how the time grows with the layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.timing import median_seconds, reference_loop, say
from bench.transformer_graph import transformer_graph
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.outcome import Outcome, SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming

_LAYERS = (2, 12, 32, 96, 126)
_FEW, _MANY = 12, 96


@dataclass(frozen=True, slots=True)
class Row:
    case: str
    seconds: float
    outcome: Outcome

    def text(self, reference_seconds: float) -> str:
        found = self.outcome
        gap = (found.cost_ns - found.lower_bound_ns) / found.cost_ns
        return (
            f"{self.case:44} {self.seconds:8.3f} {self.seconds / reference_seconds:8.1f} "
            f"{found.status:>9} {100 * gap:8.3f}"
        )


def main() -> None:
    reference_seconds = median_seconds(reference_loop)[0]
    dynamic_programming(_limited(transformer_graph(2), 0.5), SearchBudget())
    say(f"{'case':44} {'s':>8} {'ratio':>8} {'status':>9} {'gap %':>8}")
    say(f"{'reference: numpy min-plus 200 x 200 x 200':44} {reference_seconds:8.3f}      1.0")
    seconds: dict[tuple[str, int], float] = {}
    for layers in _LAYERS:
        graph = transformer_graph(layers)
        case = f"{layers} layers, {len(graph.nodes)} nodes"
        near = SearchBudget(60.0, tolerance=5e-3)
        for what, own, budget in (
            ("no limit", graph, SearchBudget()),
            ("limit 0.5, to 0.5 %", _limited(graph, 0.5), near),
            ("limit 0.1, to 0.5 %", _limited(graph, 0.1), near),
        ):
            row = _row(f"{case}, {what}", own, budget)
            seconds[what, layers] = row.seconds
            say(row.text(reference_seconds))
    exact = _row(
        "32 layers, limit 0.5, exact", _limited(transformer_graph(32), 0.5), SearchBudget(60.0)
    )
    say(exact.text(reference_seconds))
    for what in dict.fromkeys(what for what, _ in seconds):
        times = seconds[what, _MANY] / seconds[what, _FEW]
        say(f"from {_FEW} to {_MANY} layers, {what}: {times:.2f} times")


def _limited(graph: CostGraph, share: float) -> CostGraph:
    """A limit at this share of the way from the least memory to that of the cheapest choice."""
    cheapest = dynamic_programming(graph, SearchBudget())
    none = CostGraph(graph.nodes, graph.edges, 0.0)
    least = dynamic_programming(none, SearchBudget()).minimum_memory_bytes or 0.0
    limit = round(least + share * (cheapest.memory_bytes - least))
    return CostGraph(graph.nodes, graph.edges, float(limit))


def _row(case: str, graph: CostGraph, budget: SearchBudget) -> Row:
    seconds, outcome = median_seconds(lambda: dynamic_programming(graph, budget))
    return Row(case, seconds, outcome)


if __name__ == "__main__":
    main()
