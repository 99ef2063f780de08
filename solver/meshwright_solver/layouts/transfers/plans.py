"""Items of a transfer between two plans: parameters at rest and optimizer state.

This is a checkpoint moved to another plan, other device counts included. A plan of inference takes
the values alone, of the parameters that it reads. Rank 0 of the first plan is device 0 of the
cluster, rank 0 of the second plan is device `first`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from meshwright.schema import (
    DTYPE_BYTES,
    Calibration,
    Graph,
    Layout,
    ParameterPlan,
    Plan,
    PlanError,
    Setup,
    Topology,
)
from meshwright.schema.transfer import MovedStates, Transfer, TransferState
from meshwright.transfers.holding import PlacedMesh
from meshwright_costmodel.calibrations import default_calibration
from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.layouts.transfers.grouped_links import wiring_of
from meshwright_solver.layouts.transfers.transfer import Item, transfer

STATES: Mapping[MovedStates, tuple[TransferState, ...]] = {
    "value": ("value",),
    "optimizer": ("optimizer",),
    "all": ("value", "optimizer"),
}


@dataclass(frozen=True)
class PlanDocuments:
    """A plan and its documents."""

    plan: Plan
    graph: Graph
    topology: Topology
    setup: Setup


def transfer_documents(
    plans: tuple[Plan, Plan],
    graphs: tuple[Graph, Graph],
    topologies: tuple[Topology, Topology],
    setups: tuple[Setup, Setup],
    *,
    state: MovedStates = "all",
    first: int = 0,
    cluster: Topology | None = None,
    calibration: Calibration | None = None,
) -> Transfer:
    """`transfer_plans` of pairs: the source's documents, then the target's."""
    source, target = map(PlanDocuments, plans, graphs, topologies, setups)
    return transfer_plans(
        source, target, state=state, first=first, cluster=cluster, calibration=calibration
    )


def transfer_plans(
    source: PlanDocuments,
    target: PlanDocuments,
    *,
    state: MovedStates = "all",
    first: int = 0,
    cluster: Topology | None = None,
    calibration: Calibration | None = None,
) -> Transfer:
    """The transfer of one plan's parameters to the layouts of another plan.

    cluster: the topology that contains the devices of both plans. None is the larger of the two,
    with more units on its slowest level where `first` needs them. Raises PlanError where the plans
    have other parameters or optimizers, or lie on devices of no known cluster.
    """
    _check(source, target, state)
    cluster = _mixed_cluster(source, target, first, cluster) or _uniform_cluster(
        source, target, first, cluster
    )
    return transfer(
        _items(source, target, STATES[state], first),
        wiring_of(cluster, calibration or default_calibration()),
        from_plan=source.plan.id,
        to_plan=target.plan.id,
    )


def _mixed_cluster(
    source: PlanDocuments, target: PlanDocuments, first: int, cluster: Topology | None
) -> Topology | None:
    """The mixed cluster that both plans are for; None where all devices are of one kind."""
    topologies = [
        topology for topology in (source.topology, target.topology, cluster) if topology is not None
    ]
    if not any(topology.beside for topology in topologies):
        return None
    if first or len({topology.id for topology in topologies}) > 1:
        mixed = next(topology for topology in topologies if topology.beside)
        raise PlanError(
            f"{mixed.name or 'a topology'} has several kinds of devices, and a transfer stays "
            "within such a topology. Use two plans for this topology, both from its first device"
        )
    return topologies[0]


def _uniform_cluster(
    source: PlanDocuments, target: PlanDocuments, first: int, cluster: Topology | None
) -> Topology:
    reach = max(source.topology.device_count, first + target.topology.device_count)
    if cluster is None:
        return _joint(source.topology, target.topology, reach)
    if cluster.device_count < reach:
        raise PlanError(
            f"the plans need the devices 0 to {reach - 1}, the cluster {cluster.name!r} has "
            f"{cluster.device_count}. Name a larger cluster"
        )
    return cluster


def _items(
    source: PlanDocuments, target: PlanDocuments, states: tuple[TransferState, ...], first: int
) -> Iterator[Item]:
    dtypes = {tensor.name: tensor.dtype for tensor in source.graph.tensors}
    for state in states:
        held = {
            parameter.tensor: (parameter, site)
            for parameter, site in _parameters_at_rest(source, 0, state)
        }
        for parameter, site in _parameters_at_rest(target, first, state):
            before, here = held[parameter.tensor]
            layouts = _layout(before, state), _layout(parameter, state)
            if layouts[0] is None or layouts[1] is None:
                continue  # a parameter that is not trained, or a plan that does not train
            size = (
                DTYPE_BYTES[dtypes[parameter.tensor]]
                if state == "value"
                else source.setup.optimizer_element_bytes(dtypes[parameter.tensor])
            )
            yield Item(parameter.tensor, state, size, layouts[0], here, layouts[1], site)


def _parameters(documents: PlanDocuments, first: int) -> Iterator[tuple[ParameterPlan, PlacedMesh]]:
    """The parameters in a checkpoint of a plan, without the caches of inference."""
    names = {tensor.name for tensor in documents.graph.tensors if tensor.role == "parameter"}
    for stage in documents.plan.stages:
        begin = first + stage.ranks_from
        site = PlacedMesh(stage.mesh, np.arange(begin, begin + stage.mesh.device_count))
        for parameter in stage.parameters:
            if parameter.tensor in names:
                yield parameter, site


def _parameters_at_rest(
    documents: PlanDocuments, first: int, state: TransferState
) -> Iterator[tuple[ParameterPlan, PlacedMesh]]:
    """Parameters with the devices that hold a state of them: the owners of a dealt-out one."""
    key_of = IdentityKeys()
    owners: dict[Hashable, PlacedMesh] = {}
    for parameter, site in _parameters(documents, first):
        if state == "value" or not parameter.owner:
            yield parameter, site
            continue
        key = key_of(site), *sorted(parameter.owner.items())
        if key not in owners:
            owners[key] = site.part(parameter.owner)
        yield parameter, owners[key]


def _layout(parameter: ParameterPlan, state: TransferState) -> Layout | None:
    return parameter.value if state == "value" else parameter.optimizer


def _check(source: PlanDocuments, target: PlanDocuments, state: MovedStates) -> None:
    """Check that the plans have the same parameters and a compatible optimizer state."""
    source_shapes, target_shapes = _shapes(source), _shapes(target)
    for name, shape in target_shapes.items():
        source_shape = source_shapes.get(name)
        if source_shape != shape:
            has = (
                f"has it in the shape {list(source_shape)}"
                if source_shape is not None
                else "does not have it"
            )
            raise PlanError(
                f"the plans are of different models: parameter {name!r} of the shape {list(shape)} "
                f"is in the target's plan, and the source's plan {has}. Use plans of one model"
            )
    extra = [name for name in source_shapes if name not in target_shapes]
    if extra and target.setup.phase == "training":
        raise PlanError(
            f"the plans are of different models: parameter {extra[0]!r} is only in the source's "
            "plan. Use plans of one model"
        )
    dtypes = [{t.name: t.dtype for t in plan.graph.tensors} for plan in (source, target)]
    for name in target_shapes:
        if dtypes[0].get(name) != dtypes[1].get(name):
            raise PlanError(
                f"parameter {name!r} is {dtypes[0].get(name)} in the source's graph and "
                f"{dtypes[1].get(name)} in the target's. Plan both with one dtype"
            )
    if state != "value":
        _check_optimizers(source, target)


def _check_optimizers(source: PlanDocuments, target: PlanDocuments) -> None:
    has, wants = (
        any(p.optimizer is not None for p, _ in _parameters(documents, 0))
        for documents in (source, target)
    )
    if wants and not has:
        raise PlanError(
            "the source's plan holds no optimizer state, and the target's plan needs it. "
            "Use --state value to move only the parameters"
        )
    if not wants or not has:
        return
    for field in ("optimizer", "master_dtype"):
        one, other = getattr(source.setup, field), getattr(target.setup, field)
        if one != other:
            raise PlanError(
                f"the optimizer state of the source's plan does not fit the target's: {field} is "
                f"{one} in the source's setup and {other} in the target's. Use --state value to "
                "move only the parameters"
            )


def _shapes(documents: PlanDocuments) -> dict[str, tuple[int, ...]]:
    return {parameter.tensor: parameter.value.shape for parameter, _ in _parameters(documents, 0)}


def _joint(source: Topology, target: Topology, reach: int) -> Topology:
    """The cluster of both plans, where the plans determine it."""
    small, large = sorted((source, target), key=lambda topology: topology.device_count)
    why = ""
    if small.device.name != large.device.name:
        why = f"one is for {small.device.name}, one for {large.device.name}"
    elif not _within(small, large):
        why = "their nodes differ"
    elif reach > large.device_count and len(large.levels) == 1:
        why = "the links between them are not known"
    if why:
        raise PlanError(
            f"the plans do not determine the cluster of both: {why}. Name it with --cluster, and "
            "the first device of the second plan with --first"
        )
    if reach <= large.device_count:
        return large
    unit = prod(level.size for level in large.levels[1:])
    outer = large.levels[0].model_copy(update={"size": -(-reach // unit)})
    return large.model_copy(update={"levels": (outer, *large.levels[1:])})


def _within(small: Topology, large: Topology) -> bool:
    """Whether one topology is a part of the other, from its first device on."""
    sizes, inside = ([level.size for level in topology.levels] for topology in (large, small))
    same = len(inside) - 1
    ends = sizes[len(sizes) - same :] == inside[1:]
    return same < len(sizes) and ends and inside[0] <= sizes[-len(inside)]
