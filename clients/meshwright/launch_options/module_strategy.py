"""Strategies of modules: a plan of one stage in the terms of PyTorch's own parts.

`fully_shard` shards parameters over the data-parallel ranks, `parallelize_module` cuts modules over
the tensor-parallel ranks (`stages.module_placements`), checkpoints recompute blocks.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from meshwright.launch_options.loss_reduction import Reduction, loss_reduction
from meshwright.launch_options.roles import axis_roles, op_roles
from meshwright.schema import Axis, Graph, Layout, Mesh, ParameterPlan, Stage
from meshwright.stages.dropout import drops
from meshwright.stages.module_placements import ModulePlacements, module_placements
from meshwright.stages.op_axes import on_reused
from meshwright.stages.planned_stage import PlannedStage

Ranks = tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class ModuleStrategy:
    """A stage in the terms of PyTorch's own parts.

    ranks             the ranks as a mesh: ranks with the same parameters × ranks that shard them ×
                      tensor-parallel ranks
    placements        of modules on the tensor-parallel ranks
    shard_dims        the dim of a parameter that `fully_shard` cuts
    keeps_parameters  whether gathered parameters are kept until the backward pass has read them
    recomputes        whether the blocks are recomputed
    reduction         of the loss over the batch
    reduce_bytes      bytes of an element of the gradients that are reduced; None without a
                      reduction
    drops_alike       whether tensor-parallel ranks drop the same elements
    unstated          the parts of the plan that these terms do not state
    """

    ranks: Ranks
    placements: ModulePlacements
    shard_dims: Mapping[str, int]
    keeps_parameters: bool
    recomputes: bool
    reduction: Reduction | None
    reduce_bytes: int | None
    drops_alike: bool
    unstated: tuple[str, ...]

    @property
    def replicas(self) -> int:
        return len(self.ranks)

    @property
    def shards(self) -> int:
        return len(self.ranks[0])

    @property
    def tensor(self) -> int:
        return len(self.ranks[0][0])


def module_strategy(stage: Stage, graph: Graph, symbols: Mapping[str, int]) -> ModuleStrategy:
    """The strategy of a plan's only stage; `symbols` are the sizes of one microbatch."""
    planned = PlannedStage(graph, stage, symbols)
    roles = axis_roles(stage, op_roles(stage, graph))
    data = tuple(axis for axis in planned.mesh.names if roles.get(axis) == "dp")
    tensor = tuple(axis for axis in planned.mesh.names if roles.get(axis) == "tp")
    sharding = _sharding_axes(stage.parameters, data)
    placements = module_placements(planned, tensor)
    alike, unlike = _drops(planned, tensor)
    reduction, of_loss = loss_reduction(graph)
    unstated = [
        *_role_faults(roles),
        *placements.unplaced,
        *unlike,
        *_batch_faults(planned, data, of_loss),
        *_state_faults(stage),
    ]
    if data and reduction is None:
        unstated.append(
            "the loss: it is neither a mean nor a sum over the batch, so that gradients of parts "
            "of the batch cannot be added"
        )
    return ModuleStrategy(
        ranks=_ranks(stage, [axis for axis in data if axis not in sharding], sharding, tensor),
        placements=placements,
        shard_dims=dict(_shard_dims(stage.parameters, sharding)),
        keeps_parameters=not any(_dim_of(p.value, sharding) is not None for p in stage.parameters),
        recomputes=stage.recompute is not None and bool(stage.recompute.segments),
        reduction=reduction,
        reduce_bytes=_reduce_bytes(stage, planned.mesh),
        drops_alike=alike,
        unstated=tuple(unstated),
    )


def _ranks(stage: Stage, *axes: Sequence[Axis]) -> Ranks:
    """The ranks by their coordinates on the replicas, the shards and the tensor-parallel axes."""
    mesh = stage.mesh
    found: dict[tuple[int, ...], int] = {}
    for place in range(mesh.device_count):
        on = mesh.coordinates(place)
        key = []
        for part in axes:
            index = 0
            for axis in part:
                index = index * mesh.size((axis,)) + on[axis]
            key.append(index)
        found[tuple(key)] = stage.ranks_from + place
    replicas, shards, tensor = (range(mesh.size(tuple(part))) for part in axes)
    return tuple(tuple(tuple(found[r, s, t] for t in tensor) for s in shards) for r in replicas)


def _role_faults(roles: Mapping[str, str | None]) -> Iterator[str]:
    for axis, role in roles.items():
        if role is None:
            yield f"axis {axis}: its ranks repeat each other's work"
        elif role not in ("dp", "tp"):
            yield f"axis {axis}: it is neither data- nor tensor-parallel"


def _batch_faults(
    planned: PlannedStage, data: Sequence[Axis], of_loss: Container[str]
) -> Iterator[str]:
    """Messages for ops that read the batch of other data-parallel ranks, but for the loss."""
    on_data = set(data)
    for op in planned.order:
        entry = planned.ops[op.name]
        if op.kind != "cross_entropy" and not on_data.isdisjoint(on_reused(entry)):
            yield f"op {op.name!r}: its statistics are those of the whole batch, over all ranks"
    for moved in planned.stage.redistributions:
        steps = moved.forward if moved.traffic == "activation" else ()
        if moved.tensor not in of_loss and any(not on_data.isdisjoint(step.axes) for step in steps):
            yield f"tensor {moved.tensor!r}: it is redistributed over data-parallel ranks"


def _state_faults(stage: Stage) -> Iterator[str]:
    """Messages for states that `fully_shard` does not keep so, and for other recomputation."""
    for parameter in stage.parameters:
        if parameter.on_host:
            where = ", ".join(parameter.on_host)
            yield f"parameter {parameter.tensor!r}: its {where} is on the host"
        if parameter.owner:
            yield f"parameter {parameter.tensor!r}: one rank holds its whole optimizer state"
        if parameter.sparse_gradient:
            yield f"parameter {parameter.tensor!r}: its gradient is rows that were looked up"
    policy = "none" if stage.recompute is None else stage.recompute.policy
    if policy not in ("none", "full"):
        yield f"recomputation {policy!r}: checkpoints are around whole blocks"


def _sharding_axes(parameters: Sequence[ParameterPlan], data: Sequence[Axis]) -> tuple[Axis, ...]:
    """The data-parallel axes over which gradients are sharded."""
    used = {
        axis
        for parameter in parameters
        if parameter.gradient is not None
        for dim in parameter.gradient.dims
        for axis in dim.axes
    }
    return tuple(axis for axis in data if axis in used)


def _shard_dims(
    parameters: Sequence[ParameterPlan], sharding: Sequence[Axis]
) -> Iterator[tuple[str, int]]:
    for parameter in parameters:
        layout = parameter.gradient or parameter.value
        dim = _dim_of(layout, sharding)
        if dim is not None:
            yield parameter.tensor, dim


def _dim_of(layout: Layout, axes: Sequence[Axis]) -> int | None:
    """The dim of a layout that any of the axes cuts."""
    return next(
        (d for d, dim in enumerate(layout.dims) if not set(dim.axes).isdisjoint(axes)), None
    )


def _reduce_bytes(stage: Stage, mesh: Mesh) -> int | None:
    """Bytes of an element of the gradients that are reduced, by the largest reduction."""
    found = [
        step
        for moved in stage.redistributions
        if moved.traffic == "gradient"
        for step in (*moved.backward, *moved.per_step)
        if step.kind in ("all_reduce", "reduce_scatter")
    ]
    if not found:
        return None
    largest = max(found, key=lambda step: step.payload_bytes)
    elements = prod(largest.to.local_shape(mesh))
    if largest.kind == "reduce_scatter":
        elements *= mesh.size(largest.axes)
    return round(largest.payload_bytes / elements)


def _drops(planned: PlannedStage, tensor: Sequence[Axis]) -> tuple[bool, Sequence[str]]:
    """Whether dropout drops the same elements on all tensor-parallel ranks; messages for both."""
    cut: list[str] = []
    whole: list[str] = []
    for op in planned.order:
        if drops(op.kind, op.attrs):
            axes = {axis for on in planned.ops[op.name].strategy.values() for axis in on}
            (whole if axes.isdisjoint(tensor) else cut).append(op.name)
    if cut and whole:
        return True, [
            f"dropout: op {cut[0]!r} is cut over tensor-parallel ranks and op {whole[0]!r} is not, "
            "so that ranks would need two states of random numbers"
        ]
    return bool(whole), ()
