"""The layouts of one tensor of a plan: blocks with the ranks of their devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.common.name_ranges import fold
from meshwright.schema import Layout, Mesh, Plan, PlanError, Redistribution, Stage
from meshwright.schema.collective_step import Step
from meshwright.schema.stage import Direction
from meshwright.schema.tensor_layouts import (
    BlockChange,
    Blocks,
    Cut,
    LayoutPath,
    TensorLayouts,
)

MOST = 8  # chosen: rows and columns of a grid; larger ones are read from the first
_MOST_RANGES = 4  # chosen: of the ranks of one block


def layouts_of(plan: Plan, tensor: str, stage: int | None = None) -> TensorLayouts:
    """The layouts of a tensor, which is no view, in a stage; by default in the first that has it.

    Raises PlanError if no stage has the tensor.
    """
    places = range(len(plan.stages)) if stage is None else (stage,)
    for number in places:
        if not 0 <= number < len(plan.stages):
            raise PlanError(f"the plan has no stage {number}. Use 0 to {len(plan.stages) - 1}")
        found = _at_rest(plan.stages[number], tensor)
        if found is not None:
            return _of_stage(plan, number, tensor, found)
    where = "the plan" if stage is None else f"stage {stage} of the plan"
    raise PlanError(f"{where} has no tensor {tensor!r} with a layout of its own")


def blocks_of(layout: Layout, mesh: Mesh, first_rank: int = 0) -> Blocks:
    """The blocks of a layout. first_rank: the first rank of the mesh."""
    cuts = list(_cuts(layout, mesh))
    rows = cuts[0].ways if cuts else 1
    columns = prod(cut.ways for cut in cuts[1:])
    at = _block_of_device(cuts, mesh)
    devices = tuple(
        tuple(
            _ranges(first_rank + np.flatnonzero(at == row * columns + column))
            for column in range(min(columns, MOST))
        )
        for row in range(min(rows, MOST))
    )
    return Blocks(
        layout=str(layout),
        cuts=tuple(cuts),
        partial=tuple(sorted(layout.partial)),
        shape=layout.local_shape(mesh),
        rows=rows,
        columns=columns,
        devices=devices,
    )


def _of_stage(
    plan: Plan, number: int, tensor: str, layouts: tuple[Layout, Layout | None, Layout | None]
) -> TensorLayouts:
    stage = plan.stages[number]
    value, gradient, optimizer = (
        None if layout is None else blocks_of(layout, stage.mesh, stage.ranks_from)
        for layout in layouts
    )
    assert value is not None
    return TensorLayouts(
        plan=plan.id,
        tensor=tensor,
        stage=number,
        mesh=stage.mesh,
        first_rank=stage.ranks_from,
        shape=layouts[0].shape,
        value=value,
        gradient=gradient,
        optimizer=optimizer,
        paths=tuple(_paths(stage, [r for r in stage.redistributions if r.tensor == tensor])),
    )


def _at_rest(stage: Stage, tensor: str) -> tuple[Layout, Layout | None, Layout | None] | None:
    """The layouts of the value, the gradient and the optimizer state at rest."""
    for parameter in stage.parameters:
        if parameter.tensor == tensor:
            return parameter.value, parameter.gradient, parameter.optimizer
    for activation in stage.tensors:
        if activation.tensor == tensor:
            return activation.rest.value, activation.rest.gradient, None
    return None


def _paths(stage: Stage, moves: Sequence[Redistribution]) -> Iterator[LayoutPath]:
    paths = [path for move in moves for path in _passes(move)]
    for repeat in fold((path.reader, path.meaning, path) for path in paths):
        yield LayoutPath(
            reader=repeat.label or None,
            readers=repeat.count,
            direction=repeat.first.direction,
            traffic=repeat.first.traffic,
            changes=tuple(_change(stage, step) for step in repeat.first.steps),
        )


@dataclass(frozen=True, slots=True)
class _Path:
    """The steps of one redistribution in one pass. reader: empty for all."""

    reader: str
    direction: Direction
    traffic: str
    steps: tuple[Step, ...]

    @property
    def meaning(self) -> tuple[object, ...]:
        steps = [(step.kind, step.axes, step.payload_bytes, str(step.to)) for step in self.steps]
        return self.direction, self.traffic, *steps


def _passes(move: Redistribution) -> Iterator[_Path]:
    for direction, steps in move.steps_by_direction:
        if steps:
            yield _Path(move.op or "", direction, move.traffic, steps)


def _change(stage: Stage, step: Step) -> BlockChange:
    return BlockChange(
        kind=step.kind,
        axes=step.axes,
        payload_bytes=step.payload_bytes,
        ns=step.ns,
        after=blocks_of(step.to, stage.mesh, stage.ranks_from),
    )


def _cuts(layout: Layout, mesh: Mesh) -> Iterator[Cut]:
    for number, dim in enumerate(layout.dims):
        for part in dim.parts:
            ways = mesh.size(part.axes)
            if ways > 1:
                yield Cut(dim=number, size=part.size, axes=part.axes, ways=ways)


def _block_of_device(cuts: Iterable[Cut], mesh: Mesh) -> NDArray[np.int64]:
    """(devices,): the number of the block of each device, counted with the last cut fastest."""
    sizes = [axis.size for axis in mesh.axes]
    coordinates = {
        axis: places.ravel() for axis, places in zip(mesh.names, np.indices(sizes), strict=True)
    }
    blocks = np.zeros(mesh.device_count, dtype=np.int64)
    for cut in cuts:
        for axis in cut.axes:
            blocks = blocks * mesh.size((axis,)) + coordinates[axis]
    return blocks


def _ranges(ranks: NDArray[np.int64]) -> str:
    """Ranks in order as ranges, such as `0-3, 8-11`; of many the first two and the last."""
    runs = np.split(ranks, np.flatnonzero(np.diff(ranks) != 1) + 1)
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(texts) <= _MOST_RANGES:
        return ", ".join(texts)
    return f"{texts[0]}, {texts[1]}, … {texts[-1]} ({len(ranks)})"
