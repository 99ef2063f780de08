"""Cuts of a stated pipeline: at whole layers, into stages as equal as possible.

A layer is a repeated sequence of ops (`meshwright_solver.folding.fold`). If the stages divide the
layers, each has equally many, as in Megatron-LM; ops before the layers belong to the first stage,
ops after them to the last. Otherwise the cuts

    minimize  sum over stages of (FLOPs of its ops)^2

by dynamic programming over the beginnings of layers. In a graph without layers the candidates are
the places at which a cut sends least.
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
    """Positions in `anatomy.order` at which stages begin, without that of the first stage.

    Raises InvalidInput for fewer ops than stages.
    """
    if stages > len(anatomy.order):
        raise InvalidInput(
            f"{stages} stages need as many ops; the graph has {len(anatomy.order)} that are no "
            "views and depend on a parameter",
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
    return _balanced_cuts(_flops(anatomy, setup), at, stages)


def _flops(anatomy: Anatomy, setup: Setup) -> FloatArray:
    rules = RuleTable(anatomy.graph.instantiate(setup.symbols))
    flops = np.zeros(len(anatomy.order))
    for position, op in enumerate(anatomy.order):
        bound = rules.rule_of(op)
        if bound is not None:
            sizes = {str(factor): size for factor, size in bound.sizes.items()}
            flops[position] = bound.known.rule.flop_count(sizes)
    return flops


def _balanced_cuts(flops: FloatArray, at: IntArray, stages: int) -> tuple[int, ...]:
    ends = np.concatenate([[0], at, [len(flops)]]).astype(np.int64)
    total = max(float(flops.sum()), 1.0)
    work = np.concatenate([[0.0], np.cumsum(flops / total)])[ends]
    squared = (work[None, :] - work[:, None]) ** 2
    squared[np.arange(len(ends))[:, None] >= np.arange(len(ends))[None, :]] = np.inf
    best = squared[0]
    choices = []
    for _ in range(stages - 1):
        sums = best[:, None] + squared
        choices.append(sums.argmin(axis=0))
        best = sums.min(axis=0)
    cuts = [len(ends) - 1]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    begins = tuple(int(ends[place]) for place in reversed(cuts[1:]))
    assert all(first < last for first, last in pairwise((0, *begins, len(flops))))
    return begins
