"""Where a stated pipeline is cut: whole layers, stages as equal as they come.

A layer is a stretch of ops that repeats (`meshwright_solver.folding.fold`). Where stages can have
equally many, they do, as in Megatron-LM; what comes before the layers goes with the first stage,
what comes after with the last. Otherwise the cuts

    minimise  sum over stages of (FLOPs of its ops)^2

by dynamic programming over the places where a layer begins, or where a cut sends least in a graph
in which nothing repeats.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from meshwright.schema import InvalidInput, Setup
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.pipeline.cuts import crossing_bytes, places
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.rules import RuleTable


def equal_cuts(anatomy: Anatomy, setup: Setup, stages: int) -> tuple[int, ...]:
    """Positions in `anatomy.order` before which stages begin, but for the first.

    Raises InvalidInput where there are fewer ops than stages.
    """
    if stages > len(anatomy.order):
        raise InvalidInput(
            f"{stages} stages need as many ops to begin with; the graph has {len(anatomy.order)} "
            "that are no views and depend on a parameter",
            pointer="/pipeline",
        )
    begins = layer_begins(anatomy)
    if len(begins) >= stages and len(begins) % stages == 0:
        each = len(begins) // stages
        return tuple(begins[each::each].tolist())
    at = begins[begins > 0]
    if len(at) < stages - 1:
        at = places(crossing_bytes(anatomy, setup.symbols))
    if len(at) < stages - 1:
        at = np.arange(1, len(anatomy.order), dtype=np.int64)
    return _balanced(_flops(anatomy, setup), at, stages)


def _flops(anatomy: Anatomy, setup: Setup) -> FloatArray:
    rules = RuleTable(anatomy.graph.instantiate(setup.symbols))
    found = np.zeros(len(anatomy.order))
    for position, op in enumerate(anatomy.order):
        bound = rules.rule_of(op)
        if bound is not None:
            sizes = {str(factor): size for factor, size in bound.sizes.items()}
            found[position] = bound.known.rule.flop_count(sizes)
    return found


def _balanced(flops: FloatArray, at: IntArray, stages: int) -> tuple[int, ...]:
    ends = np.concatenate([[0], at, [len(flops)]]).astype(np.int64)
    total = max(float(flops.sum()), 1.0)
    work = np.concatenate([[0.0], np.cumsum(flops / total)])[ends]
    squared = (work[None, :] - work[:, None]) ** 2
    squared[np.arange(len(ends))[:, None] >= np.arange(len(ends))[None, :]] = np.inf
    best = squared[0]
    choices = []
    for _ in range(stages - 1):
        found = best[:, None] + squared
        choices.append(found.argmin(axis=0))
        best = found.min(axis=0)
    cuts = [len(ends) - 1]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    own = tuple(int(ends[place]) for place in reversed(cuts[1:]))
    assert all(first < last for first, last in pairwise((0, *own, len(flops))))
    return own
