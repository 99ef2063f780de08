"""Small random models, and all their choices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from solver.cost_graph import CostGraph, IntArray
from solver.lagrangian.memory import cost_of, profile_of
from solver.lagrangian.model import Model, model_of
from tests.solver.timed_graphs import random_timed_graph

_MOST_CHOICES = 3000  # chosen: tests enumerate them


def random_model(seed: int) -> tuple[CostGraph, Model]:
    """The first of a row of random graphs whose model has not too many choices."""
    for attempt in itertools.count():
        graph = random_timed_graph(1000 * attempt + seed)
        model = model_of(graph)
        if math.prod(model.extents.tolist()) <= _MOST_CHOICES:
            return graph, model
    raise AssertionError


def all_states(model: Model) -> Iterator[IntArray]:
    for states in itertools.product(*(range(k) for k in model.extents.tolist())):
        yield np.array(states, dtype=np.int64)


def least_cost(model: Model, memory_limit: float) -> float:
    """By enumeration; inf where nothing is within the limit and allowed."""
    return min(
        (
            cost_of(model, states)
            for states in all_states(model)
            if profile_of(model, states).max() <= memory_limit
        ),
        default=np.inf,
    )
