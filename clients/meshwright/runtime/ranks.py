"""A plan sliced by rank: the same for the service, and for a job that has the plan in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from meshwright.runtime.stage import PlannedStage
from meshwright.runtime.whole import whole_of
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
    step_batch,
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

LOADED = ("input", "label")


def rank_strategy(
    plan: Plan, graph: Graph, setup: Setup, rank: int, topology: Topology | None = None
) -> RankStrategy:
    """What one rank does; PlanError where the documents are not the plan's, or it has no such rank.

    Stages that share their devices are all its own. topology: needed where there are several
    stages, for what goes between them.
    """
    given = [("graph", plan.graph, graph), ("setup", plan.setup, setup)]
    given += [] if topology is None else [("topology", plan.topology, topology)]
    for what, own, found in given:
        if own != found.id:
            raise PlanError(f"the plan was made for the {what} {own}, this is {found.id}")
    if setup.phase != "training":
        raise PlanError(f"the plan is for the phase {setup.phase}; a job trains")
    world_size = max(stage.ranks_from + stage.mesh.device_count for stage in plan.stages)
    if not 0 <= rank < world_size:
        raise PlanError(f"the plan has {world_size} ranks, 0 to {world_size - 1}; none is {rank}")
    symbols = microbatch_symbols(graph, setup, plan.microbatches)
    numbered = [
        (number, stage)
        for number, stage in enumerate(plan.stages)
        if 0 <= rank - stage.ranks_from < stage.mesh.device_count
    ]
    if not numbered:
        raise PlanError(f"the plan leaves rank {rank} idle; start the job without its devices")
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
                parameters=tuple(own.tensor for own in stage.parameters),
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
            f"what goes between the {len(plan.stages)} stages of the plan depends on its topology "
            f"{plan.topology}, which is not given"
        )
    # numpy, which the client does without until a plan has several stages
    from meshwright.runtime.links import stage_transfers

    return stage_transfers(plan.stages, graph, topology, rank)


def _passes(plan: Plan, pipeline_rank: int) -> tuple[tuple[int, PassKind, int], ...]:
    """What a pipeline rank does, in order."""
    own = plan.schedule
    if own is None:
        both: tuple[PassKind, PassKind] = ("F", "B")
        return tuple((0, what, number) for number in range(plan.microbatches) for what in both)
    # numpy, as above
    from meshwright.schema.pipelining.schedule import Pass
    from meshwright.schema.pipelining.schedules import schedule

    made = schedule(own.kind, own.ranks, plan.microbatches, own.stages_per_rank)
    names = cast(Mapping[Pass, PassKind], {what: what.name for what in Pass})
    return tuple((stage, names[what], number) for stage, what, number in made.orders[pipeline_rank])


def _loss_stage(plan: Plan, graph: Graph) -> int:
    """The stage that makes the loss; the last one where there is none."""
    for number, stage in enumerate(plan.stages):
        received = {own.tensor for own in stage.receives}
        made = {own.tensor for own in stage.tensors} - received
        if graph.loss in made:
            return number
    return len(plan.stages) - 1


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


def loaded_by(stages: Sequence[PlannedStage]) -> dict[str, tuple[Mesh, Layout]]:
    """The same of several stages on one rank, which loads each input once: whole, where they need
    different parts."""
    found: dict[str, tuple[Mesh, Layout]] = {}
    for planned in stages:
        for name, layout in loaded(planned).items():
            own = (planned.mesh, layout)
            is_alike = found.setdefault(name, own) == own
            found[name] = own if is_alike else (planned.mesh, whole_of(layout))
    return found


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


def _reductions(stages: Sequence[Stage], number: int) -> tuple[Step, ...]:
    """What a stage reduces before it sends."""
    back = [step for own in stages[number].receives for step in own.gradient_reduction]
    after = stages[number + 1].receives if number + 1 < len(stages) else ()
    return (*back, *(step for own in after for step in own.reduction))


def _stage(number: int, stage: Stage, rank: int, sent: Sequence[Step]) -> RankStage:
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
    """The sets of axes over whose groups anything of a stage may run, in one order for all ranks.

    sent: steps before it sends. Beside those of its steps: all axes; and those on every op, over
    which counts and statistics of its parts are added up, and each of them alone.
    """
    found: dict[frozenset[Axis], None] = {frozenset(stage.mesh.names): None}
    sizes: Mapping[Axis, int] = {axis.name: axis.size for axis in stage.mesh.axes}
    for moved in stage.redistributions:
        for step in (*moved.forward, *moved.backward, *moved.per_step):
            found[frozenset(step.axes)] = None
    for step in sent:
        found[frozenset(step.axes)] = None
    for op in stage.ops:
        every = [*(axes for axes in op.strategy.values()), tuple(op.partial)]
        for axes in (*every, *((axis,) for own in every for axis in own)):
            found[frozenset(axes)] = None
        found[frozenset(axis for axes in every for axis in axes)] = None
    ordered = [tuple(axis for axis in stage.mesh.names if axis in own) for own in found]
    return tuple(axes for axes in ordered if any(sizes[axis] > 1 for axis in axes))
