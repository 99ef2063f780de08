"""The layers of a graph: copies of its longest repeated stretch (`solver.folding`)."""

from __future__ import annotations

import numpy as np

from solver.folding import fold
from solver.pipeline.stage_graph import Anatomy
from solver.states import IntArray


def layer_begins(anatomy: Anatomy) -> IntArray:
    """Positions in `anatomy.order` with which layers begin; none where nothing repeats."""
    levels = fold(anatomy.graph, {}, nested=False).levels
    if not levels:
        return np.zeros(0, dtype=np.int64)
    run = max(levels[0], key=lambda own: own.copies * own.period)
    begins = {
        min(anatomy.place[name] for name in names if name in anatomy.place)
        for names in run.ops
        if any(name in anatomy.place for name in names)
    }
    return np.array(sorted(begins), dtype=np.int64)
