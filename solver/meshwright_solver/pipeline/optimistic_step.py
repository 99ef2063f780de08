"""The optimistic step of configurations: sums over one plan, thousands a second.

The plan is that of the whole graph on the devices of a rank, with unlimited memory. With p ranks
of equal shares, and F, I, W the plan's passes over one of m microbatches,

    step  =  (m (F + I + W) + bubble + once) / p

The bubble is that of the schedule for equal stages (docs/pipelines.md), zero for `zb_v`. The
formula leaves out uneven layers, transfers and memory limits. Plans on the same meshes are
therefore hardly faster, but plans on finer meshes can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from meshwright.schema import Passes
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft_plan import DraftPlan

_SPLIT = ("zb_h1", "zb_v")


def outlook_ns(configuration: Configuration, way: DraftPlan) -> float:
    """The optimistic step on ranks with equal parts of one kind of devices."""
    passes = way.split if configuration.schedule in _SPLIT else way.whole
    once_ns = passes.begin_ns + passes.step_ns
    each_ns = passes.forward_ns + passes.inputs_ns + passes.weights_ns
    bubble_ns = (configuration.ranks - 1) * each_ns / configuration.stages_per_rank
    if configuration.schedule == "zb_h1":
        late_ns = passes.forward_ns + passes.inputs_ns - passes.weights_ns
        bubble_ns = (configuration.ranks - 1) * max(late_ns, 0.0)
    elif configuration.schedule == "zb_v":
        bubble_ns = 0.0
    return (configuration.microbatches * each_ns + bubble_ns + once_ns) / configuration.ranks


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
