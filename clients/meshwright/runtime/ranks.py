"""A plan sliced by rank: the same for the service, and for a job that has the plan in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwright.runtime.stage import PlannedStage
from meshwright.schema import (
    Axis,
    Dim,
    Graph,
    Layout,
    Mesh,
    Plan,
    PlanError,
    Setup,
    Stage,
    SubDim,
    step_batch,
)
from meshwright.schema.rank_strategy import DatasetSlice, Group, RankStage, RankStrategy
from meshwright.schema.regions import chunks_of

LOADED = ("input", "label")


def rank_strategy(plan: Plan, graph: Graph, setup: Setup, rank: int) -> RankStrategy:
    """What one rank does; PlanError where the documents are not the plan's, or it has no such rank.

    Stages that share their devices are all its own.
    """
    for what, own, found in (("graph", plan.graph, graph.id), ("setup", plan.setup, setup.id)):
        if own != found:
            raise PlanError(f"the plan was made for the {what} {own}, this is {found}")
    if setup.phase != "training":
        raise PlanError(f"the plan is for the phase {setup.phase}; a job trains")
    world_size = max(stage.ranks_from + stage.mesh.device_count for stage in plan.stages)
    if not 0 <= rank < world_size:
        raise PlanError(f"the plan has {world_size} ranks, 0 to {world_size - 1}; none is {rank}")
    symbols = microbatch_symbols(graph, setup, plan.microbatches)
    numbered = [
        (number, stage, PlannedStage(graph, stage, symbols))
        for number, stage in enumerate(plan.stages)
        if 0 <= rank - stage.ranks_from < stage.mesh.device_count
    ]
    dataset = {
        name: _slice(name, layout, planned.mesh, rank - stage.ranks_from)
        for _, stage, planned in numbered
        for name, layout in loaded(planned).items()
    }
    return RankStrategy(
        plan=plan.id,
        graph=graph.id,
        rank=rank,
        world_size=world_size,
        symbols=symbols,
        microbatches=plan.microbatches,
        gradients=setup.gradients,
        dataset=tuple(dataset.values()),
        stages=tuple(_stage(number, stage, rank) for number, stage, _ in numbered),
        schedule=plan.schedule,
        order=plan.order,
    )


def microbatch_symbols(graph: Graph, setup: Setup, microbatches: int) -> dict[str, int]:
    """The graph's symbols in one microbatch."""
    symbols = {**graph.symbols, **setup.symbols}
    batch = step_batch(graph, setup)
    if batch is not None:
        symbols["batch"] = batch // microbatches
    return symbols


def loaded(planned: PlannedStage) -> dict[str, Layout]:
    """Inputs and labels -> the part of each that a rank loads: dim by dim what all readers need of
    it alike, where that is one stretch."""
    needs: dict[str, list[Layout]] = {}
    roles = {tensor.name: tensor.role for tensor in planned.graph.tensors}
    for op in planned.order:
        for k, name in enumerate(op.inputs):
            root = planned.source(name).root
            if roles[root] in LOADED:
                needs.setdefault(root, []).append(planned.needed(op, k))
    return {root: _common(layouts) for root, layouts in needs.items()}


def _common(layouts: list[Layout]) -> Layout:
    dims = []
    for own in zip(*(layout.dims for layout in layouts), strict=True):
        first: Dim = own[0]
        is_stretch = not first.segments and not any(part.axes for part in first.parts[1:])
        if is_stretch and all(other == first for other in own):
            dims.append(first)
        else:
            dims.append(Dim(parts=(SubDim(size=first.size),)))
    return Layout(dims=tuple(dims))


def _slice(name: str, layout: Layout, mesh: Mesh, rank: int) -> DatasetSlice:
    chunks = iter(chunks_of(layout, mesh, rank))
    parts = [[next(chunks) for _ in dim.parts] for dim in layout.dims]
    places = [own[0] for own in parts]
    return DatasetSlice(
        tensor=name,
        num_shards=tuple(ways for _, _, ways in places),
        shard_id=tuple(index for _, index, _ in places),
    )


def _stage(number: int, stage: Stage, rank: int) -> RankStage:
    own = rank - stage.ranks_from
    return RankStage(
        number=number,
        coordinates=stage.mesh.coordinates(own),
        groups=tuple(
            Group(
                axes=axes,
                ranks=tuple(
                    stage.ranks_from + other
                    for other in next(g for g in stage.mesh.groups(axes) if own in g)
                ),
            )
            for axes in axes_of_groups(stage)
        ),
        local_shapes=dict(_local_shapes(stage)),
        planned=stage.model_copy(update={"moments": (), "memory_bytes": None, "buckets": ()}),
    )


def _local_shapes(stage: Stage) -> Iterator[tuple[str, tuple[int, ...]]]:
    for parameter in stage.parameters:
        yield parameter.tensor, parameter.value.local_shape(stage.mesh)
    for tensor in stage.tensors:
        yield tensor.tensor, tensor.rest.value.local_shape(stage.mesh)


def axes_of_groups(stage: Stage) -> tuple[tuple[Axis, ...], ...]:
    """The sets of axes over whose groups anything of a stage may run, in one order for all ranks.

    Beside those of its steps: all axes; and those on every op, over which counts and statistics of
    its parts are added up, and each of them alone.
    """
    found: dict[frozenset[Axis], None] = {frozenset(stage.mesh.names): None}
    sizes: Mapping[Axis, int] = {axis.name: axis.size for axis in stage.mesh.axes}
    for moved in stage.redistributions:
        for step in (*moved.forward, *moved.backward, *moved.per_step):
            found[frozenset(step.axes)] = None
    for op in stage.ops:
        every = [*(axes for axes in op.strategy.values()), tuple(op.partial)]
        for axes in (*every, *((axis,) for own in every for axis in own)):
            found[frozenset(axes)] = None
        found[frozenset(axis for axes in every for axis in axes)] = None
    ordered = [tuple(axis for axis in stage.mesh.names if axis in own) for own in found]
    return tuple(axes for axes in ordered if any(sizes[axis] > 1 for axis in axes))
