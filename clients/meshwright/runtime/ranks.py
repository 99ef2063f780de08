"""Rank strategies: the slice of a plan for each rank, for the service and for jobs with a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from meshwright.runtime.gather_whole import whole_of
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
    Step,
    SubDim,
    Topology,
    microbatch_symbols,
)
from meshwright.schema.rank_strategy import (
    DatasetSlice,
    Group,
    PassKind,
    RankStage,
    RankStrategy,
    Site,
    StageTransfer,
)
from meshwright.schema.regions import chunks_of
from meshwright.stages.planned_stage import PlannedStage

LOADED = ("input", "label")


def rank_strategy(
    plan: Plan, graph: Graph, setup: Setup, rank: int, topology: Topology | None = None
) -> RankStrategy:
    """The strategy of one rank, with all stages on its devices.

    A plan of several stages needs its topology for the transfers between them. Raises PlanError if
    the documents are not those of the plan, or if the plan does not have the rank.
    """
    documents = [("graph", plan.graph, graph), ("setup", plan.setup, setup)]
    documents += [] if topology is None else [("topology", plan.topology, topology)]
    for kind, expected, document in documents:
        if expected != document.id:
            raise PlanError(f"the plan was made for the {kind} {expected}, this is {document.id}")
    if setup.phase != "training":
        raise PlanError(f"the plan is for the phase {setup.phase}. Use a plan for training")
    world_size = max(stage.ranks_from + stage.mesh.device_count for stage in plan.stages)
    if not 0 <= rank < world_size:
        raise PlanError(
            f"the plan has no rank {rank}. Use one of its {world_size} ranks, 0 to {world_size - 1}"
        )
    symbols = microbatch_symbols(graph, setup, plan.microbatches)
    numbered = [
        (number, stage)
        for number, stage in enumerate(plan.stages)
        if 0 <= rank - stage.ranks_from < stage.mesh.device_count
    ]
    if not numbered:
        raise PlanError(f"the plan leaves rank {rank} idle. Start the job without its devices")
    return RankStrategy(
        plan=plan.id,
        graph=graph.id,
        rank=rank,
        world_size=world_size,
        symbols=symbols,
        microbatches=plan.microbatches,
        gradients=setup.gradients,
        dataset=_dataset(graph, [stage for _, stage in numbered], symbols, rank),
        stages=tuple(
            _stage(number, stage, rank, _reductions(plan.stages, number))
            for number, stage in numbered
        ),
        sites=tuple(
            Site(
                ranks_from=stage.ranks_from,
                mesh=stage.mesh,
                groups=axes_of_groups(stage, _reductions(plan.stages, number)),
                parameters=tuple(parameter.tensor for parameter in stage.parameters),
            )
            for number, stage in enumerate(plan.stages)
        ),
        loss_stage=_loss_stage(plan, graph),
        transfers=_transfers(plan, graph, topology, rank),
        passes=_passes(plan, numbered[0][1].pipeline_rank),
        order=plan.order,
    )


def _transfers(
    plan: Plan, graph: Graph, topology: Topology | None, rank: int
) -> tuple[StageTransfer, ...]:
    if len(plan.stages) == 1:
        return ()
    if topology is None:
        raise PlanError(
            f"the transfers between the {len(plan.stages)} stages of the plan need its topology. "
            f"Give {plan.topology}"
        )
    # imports numpy, which only plans with several stages need
    from meshwright.runtime.stage_transfers import stage_transfers

    return stage_transfers(plan.stages, graph, topology, rank)


def _passes(plan: Plan, pipeline_rank: int) -> tuple[tuple[int, PassKind, int], ...]:
    """The passes of a pipeline rank, in order."""
    if plan.schedule is None:
        both: tuple[PassKind, PassKind] = ("F", "B")
        return tuple((0, what, number) for number in range(plan.microbatches) for what in both)
    # imports numpy
    from meshwright.schedules.kinds import schedule
    from meshwright.schedules.schedule import Pass

    kind, ranks, stages_per_rank = (
        plan.schedule.kind,
        plan.schedule.ranks,
        plan.schedule.stages_per_rank,
    )
    actions = schedule(kind, ranks, plan.microbatches, stages_per_rank).orders[pipeline_rank]
    names = cast(Mapping[Pass, PassKind], {what: what.name for what in Pass})
    return tuple((stage, names[what], number) for stage, what, number in actions)


def _loss_stage(plan: Plan, graph: Graph) -> int:
    """The stage that computes the loss; the last stage if there is none."""
    for number, stage in enumerate(plan.stages):
        inputs = {tensor.tensor for tensor in stage.receives}
        outputs = {tensor.tensor for tensor in stage.tensors} - inputs
        if graph.loss in outputs:
            return number
    return len(plan.stages) - 1


def loaded(planned: PlannedStage) -> dict[str, Layout]:
    """The layout in which a rank loads each input and label.

    A dim is sharded if all readers need the same contiguous range of it.
    """
    needs: dict[str, list[Layout]] = {}
    roles = {tensor.name: tensor.role for tensor in planned.graph.tensors}
    for op in planned.order:
        for k, name in enumerate(op.inputs):
            root = planned.source(name).root
            if roles[root] in LOADED:
                needs.setdefault(root, []).append(planned.needed(op, k))
    return {root: _common(layouts) for root, layouts in needs.items()}


def loaded_by(stages: Sequence[PlannedStage]) -> dict[str, tuple[Mesh, Layout]]:
    """The mesh and layout in which a rank with several stages loads each input and label.

    The rank loads an input once, and whole if the stages need different parts.
    """
    layouts: dict[str, tuple[Mesh, Layout]] = {}
    for planned in stages:
        for name, layout in loaded(planned).items():
            entry = (planned.mesh, layout)
            is_equal = layouts.setdefault(name, entry) == entry
            layouts[name] = entry if is_equal else (planned.mesh, whole_of(layout))
    return layouts


def _dataset(
    graph: Graph, stages: Sequence[Stage], symbols: Mapping[str, int], rank: int
) -> tuple[DatasetSlice, ...]:
    planned = [PlannedStage(graph, stage, symbols) for stage in stages]
    place = rank - stages[0].ranks_from
    return tuple(
        _slice(name, layout, mesh, place) for name, (mesh, layout) in loaded_by(planned).items()
    )


def _common(layouts: list[Layout]) -> Layout:
    dims = []
    for alternatives in zip(*(layout.dims for layout in layouts), strict=True):
        first: Dim = alternatives[0]
        is_range = not first.segments and not any(part.axes for part in first.parts[1:])
        if is_range and all(other == first for other in alternatives):
            dims.append(first)
        else:
            dims.append(Dim(parts=(SubDim(size=first.size),)))
    return Layout(dims=tuple(dims))


def _slice(name: str, layout: Layout, mesh: Mesh, rank: int) -> DatasetSlice:
    chunks = iter(chunks_of(layout, mesh, rank))
    parts = [[next(chunks) for _ in dim.parts] for dim in layout.dims]
    places = [dim_chunks[0] for dim_chunks in parts]
    return DatasetSlice(
        tensor=name,
        num_shards=tuple(ways for _, _, ways in places),
        shard_id=tuple(index for _, index, _ in places),
    )


def _reductions(stages: Sequence[Stage], number: int) -> tuple[Step, ...]:
    """The reductions of a stage before its sends."""
    back = [step for tensor in stages[number].receives for step in tensor.gradient_reduction]
    after = stages[number + 1].receives if number + 1 < len(stages) else ()
    return (*back, *(step for tensor in after for step in tensor.reduction))


def _stage(number: int, stage: Stage, rank: int, sent: Sequence[Step]) -> RankStage:
    place = rank - stage.ranks_from
    return RankStage(
        number=number,
        coordinates=stage.mesh.coordinates(place),
        groups=tuple(
            Group(
                axes=axes,
                ranks=tuple(
                    stage.ranks_from + other
                    for other in next(g for g in stage.mesh.groups(axes) if place in g)
                ),
            )
            for axes in axes_of_groups(stage, sent)
        ),
        local_shapes=dict(_local_shapes(stage)),
        planned=stage.model_copy(update={"moments": (), "memory_bytes": None, "buckets": ()}),
    )


def _local_shapes(stage: Stage) -> Iterator[tuple[str, tuple[int, ...]]]:
    for parameter in stage.parameters:
        yield parameter.tensor, parameter.value.local_shape(stage.mesh)
    for tensor in stage.tensors:
        yield tensor.tensor, tensor.rest.value.local_shape(stage.mesh)


def axes_of_groups(stage: Stage, sent: Iterable[Step] = ()) -> tuple[tuple[Axis, ...], ...]:
    """The sets of axes over whose groups collectives of a stage may run, in the order of all ranks.

    They are the axes of the stage's steps and of the reductions in `sent`, all axes of the mesh,
    and the axes on each op, together and one by one, for its counts and statistics.
    """
    sets: dict[frozenset[Axis], None] = {frozenset(stage.mesh.names): None}
    sizes: Mapping[Axis, int] = {axis.name: axis.size for axis in stage.mesh.axes}
    for edge in stage.redistributions:
        for step in edge.steps:
            sets[frozenset(step.axes)] = None
    for step in sent:
        sets[frozenset(step.axes)] = None
    for op in stage.ops:
        every = [*(axes for axes in op.strategy.values()), tuple(op.partial)]
        for subset in (*every, *((axis,) for axes in every for axis in axes)):
            sets[frozenset(subset)] = None
        sets[frozenset(axis for axes in every for axis in axes)] = None
    ordered = [tuple(axis for axis in stage.mesh.names if axis in members) for members in sets]
    return tuple(axes for axes in ordered if any(sizes[axis] > 1 for axis in axes))
