"""The layers of a graph: copies of its longest repeated run, with equal ops before and behind them.

A folding (`meshwright_solver.folding.fold`) leaves out a first or last copy that reads another
tensor than the rest, as the first layer reads the embedding. Such a copy is a layer too. The start
of a run within its period is arbitrary: a norm behind the embedding equals the norm at the end of a
BERT layer. Layers therefore begin where most op names change from one numbered module to the next
(`layer.3.` to `layer.4.`). In a graph without such names they begin at the start of the run.
"""

from __future__ import annotations

import re

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.folding.fold import fold, op_looks
from meshwright_solver.pipeline.stage_graph import Anatomy

_NUMBERED = re.compile(r"(?:^|.*?\.)\d+(?=\.|$)")  # the path of a module up to its first number


def layer_begins(anatomy: Anatomy) -> IntArray:
    """Positions in `anatomy.order` at which layers begin; empty without repetition."""
    levels = fold(anatomy.graph, {}, nested=False).levels
    if not levels:
        return np.zeros(0, dtype=np.int64)
    run = max(levels[0], key=lambda repeat: repeat.copies * repeat.period)
    order, place = anatomy.graph.topological_order(), anatomy.place
    looks = op_looks(anatomy.graph, order, {})
    modules = [_NUMBERED.match(op.name) for op in order]
    names = [None if match is None else match[0] for match in modules]
    shifts = [_starts(looks, run.start + shift, run.period) for shift in range(run.period)]
    starts = max(
        shifts,
        key=lambda starts_of_shift: sum(_is_first(names, start) for start in starts_of_shift),
    )
    begins = []
    for start in starts:
        places = [place[op.name] for op in order[start : start + run.period] if op.name in place]
        begins += [min(places)] if places else []
    return np.array(sorted(begins), dtype=np.int64)


def _starts(looks: IntArray, start: int, period: int) -> range:
    """Starts of all adjacent periods with equal ops, from the first to the last."""
    layer = looks[start : start + period]
    first, stop = start, start + period
    while first >= period and np.array_equal(looks[first - period : first], layer):
        first -= period
    while np.array_equal(looks[stop : stop + period], layer):
        stop += period
    return range(first, stop, period)


def _is_first(names: list[str | None], position: int) -> bool:
    """Whether an op is the first of a numbered module."""
    before = names[position - 1] if position else None
    return names[position] is not None and names[position] != before
