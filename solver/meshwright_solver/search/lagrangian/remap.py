"""A mapping between two models: a node of the new model decides every node of the old one.

    states[n] = state_maps[map_starts[n] + new_states[root[n]]]

It covers all exact reductions: dropped states, joined nodes, dropped decided nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.lagrangian.model import PairwiseModel, offsets


@dataclass(frozen=True, slots=True)
class Remap:
    """extents: those of the new model's nodes."""

    root: IntArray
    map_starts: IntArray
    state_maps: IntArray
    extents: IntArray

    def invert(self, states: IntArray) -> IntArray:
        old_states: IntArray = self.state_maps[self.map_starts[:-1] + states[self.root]]
        return old_states

    def project(self, states: IntArray) -> IntArray:
        """The new states that agree with most of the old nodes' states."""
        starts = offsets(self.extents)
        sizes = np.diff(self.map_starts)
        place = np.arange(len(self.state_maps)) - np.repeat(
            self.map_starts[:-1] - starts[self.root], sizes
        )
        agrees = self.state_maps == np.repeat(states, sizes)
        votes = np.bincount(place[agrees], minlength=starts[-1])
        owner = np.repeat(np.arange(len(self.extents)), self.extents)
        order = np.lexsort((-votes, owner))
        new_states: IntArray = order[starts[:-1]] - starts[:-1]
        return new_states

    def apply(self, model: PairwiseModel) -> PairwiseModel:
        """The same costs and memories over the new nodes; nodes of one state fold into others."""
        starts = offsets(self.extents)
        first, second = self.root[model.tails], self.root[model.heads]
        is_pair = (first != second) & (self.extents[first] > 1) & (self.extents[second] > 1)
        count = len(self.extents)
        keys = np.minimum(first, second) * count + np.maximum(first, second)
        distinct, edge_of = np.unique(keys[is_pair], return_inverse=True)
        target = np.full(model.edges, -1, dtype=np.int64)
        target[is_pair] = edge_of
        tails, heads = distinct // count, distinct % count
        tables = offsets(self.extents[tails] * self.extents[heads])
        unary = np.zeros(starts[-1])
        pair = np.zeros(tables[-1])
        _sum_up(
            model, self.root, self.map_starts, self.state_maps, target, starts, unary, tables, pair
        )
        constant = model.constant
        single = np.flatnonzero(self.extents == 1)
        constant += float(unary[starts[single]].sum())
        unary[starts[single]] = 0.0
        return self.with_terms(
            model._replace(
                starts=starts,
                unary=unary,
                tails=tails,
                heads=heads,
                tables=tables,
                pair=pair,
                constant=constant,
            )
        )

    def with_terms(self, model: PairwiseModel) -> PairwiseModel:
        """The model with its terms over the new nodes.

        Terms of the same moments are merged; the memory that all states take moves to the base.
        """
        old_owners = np.repeat(np.arange(len(self.root)), np.diff(model.first_term))
        owner = self.root[old_owners]
        moments = model.moments
        keys = (owner * (moments + 1) + model.since) * (moments + 1) + model.until
        distinct, term_of = np.unique(keys, return_inverse=True)
        until = distinct % (moments + 1)
        since = distinct // (moments + 1) % (moments + 1)
        owners = distinct // (moments + 1) ** 2
        usages = offsets(self.extents[owners])
        usage = np.zeros(usages[-1])
        _sum_terms(model, self.map_starts, self.state_maps, term_of.astype(np.int64), usages, usage)
        base = model.base.copy()
        if len(owners) == 0:
            first = np.zeros(len(self.extents) + 1, dtype=np.int64)
            return model._replace(first_term=first, base=base)
        least = np.minimum.reduceat(usage, usages[:-1])
        usage -= np.repeat(least, np.diff(usages))
        steps = np.bincount(since, least, moments + 1) - np.bincount(until, least, moments + 1)
        base += np.cumsum(steps)[:moments]
        is_used = (np.maximum.reduceat(usage, usages[:-1]) > 0) & (since < until)
        usage = usage[np.repeat(is_used, np.diff(usages))]
        owners, since, until = owners[is_used], since[is_used], until[is_used]
        first = np.searchsorted(owners, np.arange(len(self.extents) + 1)).astype(np.int64)
        return model._replace(
            first_term=first,
            since=since,
            until=until,
            usages=offsets(self.extents[owners]),
            usage=usage,
            base=base,
        )


def kept_states(model: PairwiseModel, alive: IntArray) -> Remap:
    """Drop the states of `unary` that are not alive; every node retains at least one."""
    counts = np.add.reduceat(alive, model.starts[:-1])
    node_states = np.arange(len(alive)) - np.repeat(model.starts[:-1], model.extents)
    return Remap(np.arange(model.nodes), offsets(counts), node_states[alive != 0], counts)


def same_nodes(model: PairwiseModel) -> Remap:
    """The identity mapping."""
    node_states = np.arange(len(model.unary)) - np.repeat(model.starts[:-1], model.extents)
    return Remap(np.arange(model.nodes), model.starts, node_states, model.extents)


@njit(cache=True, nogil=True)
def _sum_up(
    model: PairwiseModel,
    root: IntArray,
    map_starts: IntArray,
    state_maps: IntArray,
    target: IntArray,
    new_starts: IntArray,
    new_unary: FloatArray,
    new_tables: IntArray,
    new_pair: FloatArray,
) -> None:
    """target: the new edge of each edge, -1 where it folds into a node."""
    starts, unary, tables, pair = model.starts, model.unary, model.tables, model.pair
    for n in range(root.size):
        r = root[n]
        to, start, m = new_starts[r], starts[n], map_starts[n]
        for s in range(new_starts[r + 1] - to):
            new_unary[to + s] += unary[start + state_maps[m + s]]
    for e in range(model.tails.size):
        a, b = model.tails[e], model.heads[e]
        ra, rb = root[a], root[b]
        ka, kb = new_starts[ra + 1] - new_starts[ra], new_starts[rb + 1] - new_starts[rb]
        columns = starts[b + 1] - starts[b]
        ma, mb, table = map_starts[a], map_starts[b], tables[e]
        if target[e] >= 0:
            to = new_tables[target[e]]
            for s in range(ka):
                row = table + state_maps[ma + s] * columns
                if ra < rb:
                    for t in range(kb):
                        new_pair[to + s * kb + t] += pair[row + state_maps[mb + t]]
                else:
                    for t in range(kb):
                        new_pair[to + t * ka + s] += pair[row + state_maps[mb + t]]
        elif ra == rb:
            for s in range(ka):
                cell = state_maps[ma + s] * columns + state_maps[mb + s]
                new_unary[new_starts[ra] + s] += pair[table + cell]
        elif kb == 1:
            for s in range(ka):
                cell = state_maps[ma + s] * columns + state_maps[mb]
                new_unary[new_starts[ra] + s] += pair[table + cell]
        else:
            row = table + state_maps[ma] * columns
            for t in range(kb):
                new_unary[new_starts[rb] + t] += pair[row + state_maps[mb + t]]


@njit(cache=True, nogil=True)
def _sum_terms(
    model: PairwiseModel,
    map_starts: IntArray,
    state_maps: IntArray,
    term_of: IntArray,
    new_usages: IntArray,
    new_usage: FloatArray,
) -> None:
    for n in range(model.first_term.size - 1):
        for j in range(model.first_term[n], model.first_term[n + 1]):
            to, m = new_usages[term_of[j]], map_starts[n]
            for s in range(new_usages[term_of[j] + 1] - to):
                new_usage[to + s] += model.usage[model.usages[j] + state_maps[m + s]]
