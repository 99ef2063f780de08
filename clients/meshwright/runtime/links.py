"""Between stages: what a rank sends and receives, worked out as the planner did when it priced it.

A value goes from the stage that makes it, or passes it on, to the next; its gradient comes back. A
parameter that several stages hold has a gradient in each: every one of them gets those of the
others once a step, and all add them in the order of the stages, so that they stay equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from meshwright.schema import (
    DTYPE_BYTES,
    Graph,
    Layout,
    PlanError,
    Stage,
    Topology,
)
from meshwright.schema.rank_strategy import StageTransfer
from meshwright.schema.routing.holding import Holding, Site
from meshwright.schema.routing.pieces import Recipe, of_device
from meshwright.schema.routing.routes import Routes, slice_elements
from meshwright.schema.routing.strides import strides_of
from meshwright.schema.transfer import TransferState


def stage_transfers(
    stages: Sequence[Stage], graph: Graph, topology: Topology, rank: int
) -> tuple[StageTransfer, ...]:
    """All that one rank has a part in; PlanError where a stage lacks what the next one receives."""
    sites = [
        Site(own.mesh, np.arange(own.ranks_from, own.ranks_from + own.mesh.device_count))
        for own in stages
    ]
    units = strides_of(topology)
    found = []
    for wanted in (*_between(stages), *_sums(stages)):
        here, there = sites[wanted.source], sites[wanted.target]
        if not ((here.devices == rank).any() or (there.devices == rank).any()):
            continue
        size = DTYPE_BYTES[graph.tensor(wanted.tensor).dtype]
        routes = Routes(
            Holding.of(wanted.sent, here), Holding.of(wanted.to, there), units, slice_elements(size)
        )
        state: TransferState = "value" if wanted.what == "value" else "gradient"
        own = of_device([Recipe((wanted.tensor,), state, size, routes)], rank)
        parts = {name: getattr(own, name) for name in ("sends", "receives", "keeps", "fills")}
        found.append(wanted.model_copy(update=parts))
    return tuple(found)


def _between(stages: Sequence[Stage]) -> Iterator[StageTransfer]:
    """Without pieces: from every stage to the next, and back."""
    for source, (before, after) in enumerate(pairwise(stages)):
        pairs = [{own.tensor: own.rest for own in stage.tensors} for stage in (before, after)]
        for received in after.receives:
            name = received.tensor
            for number, own in enumerate(pairs, source):
                if name not in own:
                    raise PlanError(f"stage {number} has no layout for {name!r}, which passes it")
            here, there = (own[name] for own in pairs)
            yield StageTransfer(
                what="value",
                tensor=name,
                source=source,
                target=source + 1,
                made=here.value,
                to=there.value,
                reduction=received.reduction,
            )
            if here.gradient is not None and there.gradient is not None:
                yield StageTransfer(
                    what="gradient",
                    tensor=name,
                    source=source + 1,
                    target=source,
                    made=there.gradient,
                    to=here.gradient,
                    reduction=received.gradient_reduction,
                )


def _sums(stages: Sequence[Stage]) -> Iterator[StageTransfer]:
    """Without pieces: from every stage that holds a parameter to every other one that does."""
    holders: dict[str, dict[int, Layout]] = {}
    for number, stage in enumerate(stages):
        for own in stage.parameters:
            if own.gradient is not None:
                layout = own.optimizer or own.value
                holders.setdefault(own.tensor, {})[number] = layout
    for name, layouts in holders.items():
        yield from (
            StageTransfer(
                what="sum", tensor=name, source=source, target=target, made=made, to=layouts[target]
            )
            for source, made in layouts.items()
            for target in layouts
            if source != target
        )
