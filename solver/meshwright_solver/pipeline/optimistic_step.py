"""What configurations take at best: sums over one plan, thousands a second.

The plan is of the whole graph on the devices of a rank, with memory enough for the fastest. Of p
ranks with equal shares of it, F, I, W its passes over one of m microbatches,

    step  =  (m (F + I + W) + bubble + once) / p

with the bubble of the schedule for equal stages (docs/pipelines.md), that of `zb_v` none. Layers do
not share out so evenly, transfers take time, and memory may not suffice: cuts and plans on the same
meshes are hardly faster. It is a bound for no finer mesh.
"""

from __future__ import annotations

from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft_plan import DraftPlan

_SPLIT = ("zb_h1", "zb_v")


def outlook_ns(configuration: Configuration, way: DraftPlan) -> float:
    """On ranks of equal parts of one kind of devices."""
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
