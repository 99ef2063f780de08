"""The order of the axes on a slot for which every step of some paths is possible.

A step that takes axes off a slot, or puts axes on it, changes the innermost ones: the parts of the
others stay where they are. Of the axes on a slot, those that a step leaves there are therefore
slower than those that it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwright_solver.layouts.redistribution import Path


def in_path_order(ranks: tuple[int, ...], paths: Iterable[Path], slots: int) -> tuple[int, ...]:
    """The ranks of the axes, slowest first, as `ranks` unless a path needs another order.

    Paths that contradict each other leave `ranks` as they are.
    """
    faster = {pair for path in paths for pair in _pairs(path, slots)}
    if all((ranks[slow], slow) < (ranks[fast], fast) for slow, fast in faster):
        return ranks
    import networkx as nx  # takes 0.14 s, and few plans come here

    axes = range(len(ranks))
    graph: nx.DiGraph[int] = nx.DiGraph(faster)
    graph.add_nodes_from(axes)
    try:
        order = list(nx.lexicographical_topological_sort(graph, lambda axis: (ranks[axis], axis)))
    except nx.NetworkXUnfeasible:
        return ranks
    return tuple(order.index(axis) for axis in axes)


def _pairs(path: Path, slots: int) -> Iterator[tuple[int, int]]:
    """Pairs of axes on one slot, the slower first."""
    for step in path:
        before, after = step.before.codes, step.after.codes
        for slot in range(slots):
            on = {axis for axis, code in enumerate(before) if code == slot}
            then = {axis for axis, code in enumerate(after) if code == slot}
            yield from ((slow, fast) for slow in on & then for fast in on ^ then)
