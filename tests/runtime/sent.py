"""What the planner says that ranks send each other between stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from meshwright.planfile import PlanFile
from meshwright.schema import DTYPE_BYTES, Layout
from meshwright.schema.transfer import Transfer
from meshwright.transfers.holding import PlacedMesh
from meshwright.transfers.pieces import all_sends
from meshwright_solver.layouts.transfers.transfer import Item, between_stages, transfer
from meshwright_solver.pipeline.stage_problems import Staged

Sent = Counter[tuple[str, str, tuple[int, int], int]]  # cause, tensor, from and to, elements


def sends(file: PlanFile) -> Sent:
    """All of one step, as the transfers say that were priced."""
    plan, graph = file.plan, file.graph
    found: Sent = Counter()
    if plan.schedule is None:
        return found
    assert graph is not None
    assert file.topology is not None
    assert file.setup is not None
    staged = Staged.of_plan(plan, graph, file.topology, file.setup)
    sites = [PlacedMesh(own.mesh, staged.devices(number)) for number, own in enumerate(plan.stages)]
    rests = [{own.tensor: own.rest for own in stage.tensors} for stage in plan.stages]

    def add(cause: str, tensor: str, own: Transfer, times: int) -> None:
        size = DTYPE_BYTES[graph.tensor(tensor).dtype]
        for piece in all_sends(own):
            found[cause, tensor, (piece.source, piece.target), piece.bytes // size] += times

    for number, (before, after) in enumerate(pairwise(rests)):
        for received in plan.stages[number + 1].receives:
            name = received.tensor
            size = DTYPE_BYTES[graph.tensor(name).dtype]
            here, there = (before[name], sites[number]), (after[name], sites[number + 1])
            value, gradient = between_stages(
                name, here, there, staged.wiring, value_bytes=size, gradient_bytes=size
            )
            assert value.moved_bytes == received.bytes
            add("forward", name, value, plan.microbatches)
            if gradient is not None:
                add("backward", name, gradient, plan.microbatches)
    for name, here, source, there, target in _shared(file):
        size = DTYPE_BYTES[graph.tensor(name).dtype]
        item = Item(name, "gradient", size, here, sites[source], there, sites[target])
        add("step", name, transfer([item], staged.wiring), 1)
    return found


def _shared(file: PlanFile) -> Iterator[tuple[str, Layout, int, Layout, int]]:
    """Parameters of several stages, from each to each other, as the optimizer has them."""
    holders: dict[str, dict[int, Layout]] = {}
    for number, stage in enumerate(file.plan.stages):
        for own in stage.parameters:
            holders.setdefault(own.tensor, {})[number] = own.optimizer or own.value
    for name, layouts in holders.items():
        for source, here in layouts.items():
            yield from (
                (name, here, source, there, t) for t, there in layouts.items() if t != source
            )
