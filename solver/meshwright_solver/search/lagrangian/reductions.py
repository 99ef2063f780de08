"""Exact reductions: a smaller model with the same optimum, and the inverse mapping.

    unsupported states are removed   arc consistency on forbidden entries
    dominated states are removed     another state costs no more for any states of the neighbours,
                                     and takes no more memory at any time
    separable edges are removed      pair[s, t] = a[s] + b[t] belongs to the nodes
    deciding edges join their ends   every state of one end allows just one of the other's

Parallel edges and nodes of one state fold as well. The reductions repeat until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.common.deadline import Deadline, OutOfTime
from meshwright_solver.search.lagrangian.model import PairwiseModel, offsets
from meshwright_solver.search.lagrangian.remap import Remap, kept_states

_DOMINANCE_STEPS = 200_000_000  # chosen: of one pass over all nodes; some 0.5 s
_DOMINANCE_NODE_STEPS = 20_000_000  # chosen: at worst, of one node


@dataclass(frozen=True, slots=True)
class Reduced:
    """model: the reduced model. None: every choice of the original is forbidden."""

    model: PairwiseModel | None
    remaps: tuple[Remap, ...]

    def invert(self, states: IntArray) -> IntArray:
        """The original's states for those of the reduced model."""
        for remap in reversed(self.remaps):
            states = remap.invert(states)
        return states

    def project(self, states: IntArray) -> IntArray:
        """States of the reduced model that agree with as many of the original's as possible."""
        for remap in self.remaps:
            states = remap.project(states)
        return states


def reduced(model: PairwiseModel, deadline: Deadline) -> Reduced:
    """The reduced model. It stops early, still exact, when time runs out."""
    remaps: list[Remap] = []
    try:
        while True:
            size = len(model.unary), model.edges
            alive = (model.unary < np.inf).astype(np.int64)
            first, edges = adjacency(model)
            if not _supported(model, first, edges, alive):
                return Reduced(None, ())
            deadline.check()
            _drop_dominated(model, first, edges, alive, _DOMINANCE_STEPS)
            remaps.append(kept_states(model, alive))
            model = remaps[-1].apply(model)
            model = _without_separable(model)
            joined = _joined(model)
            if joined is not None:
                remaps.append(joined)
                model = joined.apply(model)
            if (len(model.unary), model.edges) == size:
                break
            deadline.check()
    except OutOfTime:
        pass
    return Reduced(model, tuple(remaps))


def adjacency(model: PairwiseModel) -> tuple[IntArray, IntArray]:
    """The edges of node n are edges[first[n]:first[n+1]]."""
    ends = np.concatenate([model.tails, model.heads])
    order = np.argsort(ends, kind="stable")
    counts = np.bincount(ends, minlength=model.nodes)
    return offsets(counts), (order % max(model.edges, 1)).astype(np.int64)


def _without_separable(model: PairwiseModel) -> PairwiseModel:
    keeps = np.ones(model.edges, dtype=np.int64)
    unary = model.unary.copy()
    _fold_separable(model, unary, keeps)
    is_kept = keeps != 0
    if is_kept.all():
        return model
    sizes = np.diff(model.tables)
    return model._replace(
        unary=unary,
        tails=model.tails[is_kept],
        heads=model.heads[is_kept],
        tables=offsets(sizes[is_kept]),
        pair=model.pair[np.repeat(is_kept, sizes)],
    )


def _joined(model: PairwiseModel) -> Remap | None:
    """Every tree of one-to-one edges as one node; None where no edge is one-to-one."""
    decides = np.zeros(model.edges, dtype=np.int64)
    _find_deciding(model, decides)
    if not decides.any():
        return None
    first, edges = adjacency(model)
    root = np.full(model.nodes, -1, dtype=np.int64)
    maps = np.zeros(len(model.unary), dtype=np.int64)
    _join(model, first, edges, decides, root, maps)
    roots, numbers = np.unique(root, return_inverse=True)
    return Remap(numbers.astype(np.int64), model.starts, maps, model.extents[roots])


@njit(cache=True, nogil=True)
def _supported(model: PairwiseModel, first: IntArray, edges: IntArray, alive: IntArray) -> bool:
    """Clear states of `alive` that no choice can take; False where a node has none left."""
    starts, tails, heads, tables, pair = (
        model.starts, model.tails, model.heads, model.tables, model.pair
    )  # fmt: skip
    nodes = starts.size - 1
    for n in range(nodes):
        living = 0
        for s in range(starts[n], starts[n + 1]):
            living += alive[s]
        if living == 0:
            return False
    waits = np.ones(nodes, np.bool_)
    queue = np.arange(nodes)
    head, count = 0, nodes
    while count > 0:
        n = queue[head]
        head = (head + 1) % nodes
        count -= 1
        waits[n] = False
        for j in range(first[n], first[n + 1]):
            e = edges[j]
            is_tail = tails[e] == n
            o = heads[e] if is_tail else tails[e]
            start, other = starts[n], starts[o]
            k, ko = starts[n + 1] - start, starts[o + 1] - other
            step, step_o = (ko, 1) if is_tail else (1, k)
            living, changed = 0, False
            for t in range(ko):
                if not alive[other + t]:
                    continue
                is_supported = False
                for s in range(k):
                    if alive[start + s] and pair[tables[e] + s * step + t * step_o] < np.inf:
                        is_supported = True
                        break
                if is_supported:
                    living += 1
                else:
                    alive[other + t] = 0
                    changed = True
            if living == 0:
                return False
            if changed and not waits[o]:
                waits[o] = True
                queue[(head + count) % nodes] = o
                count += 1
    return True


@njit(cache=True, nogil=True)
def _drop_dominated(
    model: PairwiseModel, first: IntArray, edges: IntArray, alive: IntArray, most_steps: int
) -> None:
    starts, unary, tails, heads, tables, pair = (
        model.starts, model.unary, model.tails, model.heads, model.tables, model.pair
    )  # fmt: skip
    steps = 0
    for n in range(starts.size - 1):
        start = starts[n]
        k = starts[n + 1] - start
        if steps > most_steps:
            return
        entries = 1
        for j in range(first[n], first[n + 1]):
            entries += (tables[edges[j] + 1] - tables[edges[j]]) // k
        if entries * k * k > _DOMINANCE_NODE_STEPS:
            continue
        for worse in range(k):
            if not alive[start + worse]:
                continue
            for better in range(k):
                if better == worse or not alive[start + better]:
                    continue
                is_better = True
                for j in range(model.first_term[n], model.first_term[n + 1]):
                    at = model.usages[j]
                    if (
                        model.since[j] < model.until[j]
                        and model.usage[at + better] > model.usage[at + worse]
                    ):
                        is_better = False
                        break
                if not is_better:
                    continue
                more = unary[start + better] - unary[start + worse]
                for j in range(first[n], first[n + 1]):
                    e = edges[j]
                    is_tail = tails[e] == n
                    o = heads[e] if is_tail else tails[e]
                    other = starts[o]
                    ko = starts[o + 1] - other
                    step, step_o = (ko, 1) if is_tail else (1, k)
                    most = -np.inf
                    steps += ko
                    for t in range(ko):
                        if alive[other + t]:
                            y = pair[tables[e] + worse * step + t * step_o]
                            if y < np.inf:
                                x = pair[tables[e] + better * step + t * step_o]
                                most = max(most, x - y)
                    more += most
                    if more == np.inf:
                        break
                if more <= 0:
                    alive[start + worse] = 0
                    break


@njit(cache=True, nogil=True)
def _fold_separable(model: PairwiseModel, unary: FloatArray, keeps: IntArray) -> None:
    starts, tails, heads, tables, pair = (
        model.starts, model.tails, model.heads, model.tables, model.pair
    )  # fmt: skip
    for e in range(tails.size):
        a, b = starts[tails[e]], starts[heads[e]]
        rows, columns = starts[tails[e] + 1] - a, starts[heads[e] + 1] - b
        table = tables[e]
        corner = pair[table]
        folds = corner < np.inf
        for s in range(rows):
            if not folds:
                break
            shift = pair[table + s * columns] - corner
            for t in range(columns):
                x = pair[table + s * columns + t]
                if x == np.inf or x != pair[table + t] + shift:
                    folds = False
                    break
        if folds:
            keeps[e] = 0
            for s in range(rows):
                unary[a + s] += pair[table + s * columns]
            for t in range(columns):
                unary[b + t] += pair[table + t] - corner


@njit(cache=True, nogil=True)
def _find_deciding(model: PairwiseModel, decides: IntArray) -> None:
    """Mark the edges whose finite entries are one-to-one."""
    starts, tails, heads, tables, pair = (
        model.starts, model.tails, model.heads, model.tables, model.pair
    )  # fmt: skip
    for e in range(tails.size):
        rows = starts[tails[e] + 1] - starts[tails[e]]
        columns = starts[heads[e] + 1] - starts[heads[e]]
        if rows != columns:
            continue
        seen = np.zeros(columns, np.int64)
        single = True
        for s in range(rows):
            count = 0
            for t in range(columns):
                if pair[tables[e] + s * columns + t] < np.inf:
                    count += 1
                    seen[t] += 1
            if count != 1:
                single = False
                break
        if single:
            for t in range(columns):
                single = single and seen[t] == 1
        decides[e] = 1 if single else 0


@njit(cache=True, nogil=True)
def _join(
    model: PairwiseModel,
    first: IntArray,
    edges: IntArray,
    decides: IntArray,
    root: IntArray,
    maps: IntArray,
) -> None:
    """root: the first node of each tree; maps: the node's state by the root's state."""
    starts, tails, heads, tables, pair = (
        model.starts, model.tails, model.heads, model.tables, model.pair
    )  # fmt: skip
    stack = np.empty(root.size, np.int64)
    for r in range(root.size):
        if root[r] >= 0:
            continue
        root[r] = r
        k = starts[r + 1] - starts[r]
        for s in range(k):
            maps[starts[r] + s] = s
        stack[0] = r
        count = 1
        while count > 0:
            count -= 1
            n = stack[count]
            for j in range(first[n], first[n + 1]):
                e = edges[j]
                if decides[e] == 0:
                    continue
                is_tail = tails[e] == n
                o = heads[e] if is_tail else tails[e]
                if root[o] >= 0:
                    continue
                root[o] = r
                step, step_o = (k, 1) if is_tail else (1, k)
                for s in range(k):
                    state = maps[starts[n] + s]
                    for t in range(k):
                        if pair[tables[e] + state * step + t * step_o] < np.inf:
                            maps[starts[o] + s] = t
                            break
                stack[count] = o
                count += 1
