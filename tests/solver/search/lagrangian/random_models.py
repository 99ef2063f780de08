"""Small random models, and all their choices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.lagrangian.memory_profile import cost_of, profile_of
from meshwright_solver.search.lagrangian.model import PairwiseModel, model_of
from tests.solver.timed_graphs import random_timed_graph

_MOST_CHOICES = 3000  # chosen: tests enumerate them


def random_model(seed: int) -> tuple[CostGraph, PairwiseModel]:
    """The first of a row of random graphs whose model has not too many choices."""
    for attempt in itertools.count():
        graph = random_timed_graph(1000 * attempt + seed)
        model = model_of(graph)
        if math.prod(model.extents.tolist()) <= _MOST_CHOICES:
            return graph, model
    raise AssertionError


def all_states(model: PairwiseModel) -> Iterator[IntArray]:
    for states in itertools.product(*(range(k) for k in model.extents.tolist())):
        yield np.array(states, dtype=np.int64)


def least_cost(model: PairwiseModel, memory_limit: float) -> float:
    """By enumeration; inf where nothing is within the limit and allowed."""
    return min(
        (
            cost_of(model, states)
            for states in all_states(model)
            if profile_of(model, states).max() <= memory_limit
        ),
        default=np.inf,
    )
