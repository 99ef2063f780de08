"""The optimistic step of configurations: sums over one plan, thousands a second.

The plan is that of the whole graph on the devices of a rank, with unlimited memory. With p ranks
of equal shares, and F, I, W the plan's passes over one of m microbatches,

    step  =  (m (F + I + W) + bubble + once) / p

The bubble is that of the schedule for equal stages (docs/explanation/pipelines.md); `zb_v` is run
with equal stages instead. The formula leaves out uneven layers, transfers and memory limits. Plans
on the same meshes are therefore hardly faster, but plans on finer meshes can be. With the work of
the graph in place of a plan's passes (`graph_work.py`), plans with stages of equal work are not
faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from meshwright.schema import Passes
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.schedule_length import pace_of
from meshwright_solver.pipeline.schedule_run import Durations

_SPLIT = ("zb_h1", "zb_v")


def outlook_ns(configuration: Configuration, way: DraftPlan) -> float:
    """The optimistic step on ranks with equal parts of one kind of devices."""
    is_split = configuration.schedule in _SPLIT
    return equal_stages_ns(configuration, way.split if is_split else way.whole)


@lru_cache(maxsize=4096)
def equal_stages_ns(configuration: Configuration, passes: Passes) -> float:
    """The step of equal stages without transfers. passes: of a rank that has the whole graph."""
    once_ns = passes.begin_ns + passes.step_ns
    each_ns = passes.forward_ns + passes.inputs_ns + passes.weights_ns
    bubble_ns = (configuration.ranks - 1) * each_ns / configuration.stages_per_rank
    if configuration.schedule == "zb_h1":
        late_ns = passes.forward_ns + passes.inputs_ns - passes.weights_ns
        bubble_ns = (configuration.ranks - 1) * max(late_ns, 0.0)
    elif configuration.schedule == "zb_v":
        return (_run_ns(configuration, passes) + once_ns) / configuration.ranks
    return (configuration.microbatches * each_ns + bubble_ns + once_ns) / configuration.ranks


def _run_ns(configuration: Configuration, passes: Passes) -> float:
    """The time of all passes, times the ranks, from runs of the schedule."""
    stages = configuration.ranks * configuration.stages_per_rank
    pace = pace_of(*configuration.schedule_terms)
    forward, inputs, weights = (
        np.full(stages, ns / configuration.stages_per_rank)
        for ns in (passes.forward_ns, passes.inputs_ns, passes.weights_ns)
    )
    durations = Durations(forward, inputs, weights, np.zeros((2, stages - 1)))
    return pace.step_ns(durations, np.zeros(stages))


def with_passes(way: DraftPlan, change: Callable[[Passes], Passes]) -> DraftPlan:
    """The draft plan with other passes, for bounds of other draft plans."""
    return replace(way, whole=change(way.whole), split=change(way.split))


def scaled(passes: Passes, share: float) -> Passes:
    """The passes over a share of the microbatch, without any loss."""
    names = ("forward_ns", "inputs_ns", "weights_ns")
    return passes.model_copy(update={name: share * getattr(passes, name) for name in names})


def repeated_forward(passes: Passes, share: float) -> Passes:
    """The passes with a share of the forward pass repeated before the backward pass."""
    inputs_ns = passes.inputs_ns + share * passes.forward_ns
    return passes.model_copy(update={"inputs_ns": inputs_ns})
