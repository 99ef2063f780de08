"""Stage transfers: the sends and receives of a rank between stages, as the planner priced them.

A stage sends a value that it computes or forwards to the next stage, which returns the gradient. A
parameter of several stages has a gradient in each. Once per step, each stage receives the gradients
of the others, and all stages add them in the same order, so that the parameters stay equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from meshwright.schema import DTYPE_BYTES, Graph, Layout, PlanError, Stage, Topology
from meshwright.schema.rank_strategy import StageTransfer
from meshwright.schema.transfer import TransferState
from meshwright.transfers.holding import PlacedMesh, PlacedTensor
from meshwright.transfers.pieces import RouteGroup, of_device
from meshwright.transfers.routes import Routes, slice_elements
from meshwright.transfers.strides import strides_of


def stage_transfers(
    stages: Sequence[Stage], graph: Graph, topology: Topology, rank: int
) -> tuple[StageTransfer, ...]:
    """The stage transfers that involve one rank.

    Raises PlanError if a stage has no layout for a tensor that the next one receives.
    """
    sites = [
        PlacedMesh(
            stage.mesh, np.arange(stage.ranks_from, stage.ranks_from + stage.mesh.device_count)
        )
        for stage in stages
    ]
    units = strides_of(topology)
    transfers = []
    for transfer in (*_between(stages), *_sums(stages)):
        source, target = sites[transfer.source], sites[transfer.target]
        if not ((source.devices == rank).any() or (target.devices == rank).any()):
            continue
        size = DTYPE_BYTES[graph.tensor(transfer.tensor).dtype]
        routes = Routes(
            PlacedTensor.of(transfer.sent, source),
            PlacedTensor.of(transfer.to, target),
            units,
            slice_elements(size),
        )
        state: TransferState = "value" if transfer.what == "value" else "gradient"
        pieces = of_device([RouteGroup((transfer.tensor,), state, size, routes)], rank)
        parts = {name: getattr(pieces, name) for name in ("sends", "receives", "keeps", "fills")}
        transfers.append(transfer.model_copy(update=parts))
    return tuple(transfers)


def _between(stages: Sequence[Stage]) -> Iterator[StageTransfer]:
    """The transfers from every stage to the next and back, without pieces."""
    for source, (before, after) in enumerate(pairwise(stages)):
        pairs = [
            {tensor.tensor: tensor.rest for tensor in stage.tensors} for stage in (before, after)
        ]
        for received in after.receives:
            name = received.tensor
            for number, layouts in enumerate(pairs, source):
                if name not in layouts:
                    raise PlanError(f"stage {number} has no layout for {name!r}, which passes it")
            here, there = (layouts[name] for layouts in pairs)
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
    """The transfers of gradients between all stages of a shared parameter, without pieces."""
    holders: dict[str, dict[int, Layout]] = {}
    for number, stage in enumerate(stages):
        for parameter in stage.parameters:
            if parameter.gradient is not None:
                layout = parameter.optimizer or parameter.value
                holders.setdefault(parameter.tensor, {})[number] = layout
    for name, layouts in holders.items():
        yield from (
            StageTransfer(
                what="sum",
                tensor=name,
                source=source,
                target=target,
                made=layout,
                to=layouts[target],
            )
            for source, layout in layouts.items()
            for target in layouts
            if source != target
        )
