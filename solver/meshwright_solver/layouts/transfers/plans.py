"""Items of a transfer between two plans: parameters at rest and optimizer state.

A checkpoint moved to another plan, other device counts included; to a plan of inference the values
alone, of the parameters that it reads. Rank 0 of the first plan is device 0 of the cluster, rank 0
of the second one is device `first`.
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
    """A plan and what it is about."""

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
    """`transfer_plans` of pairs: those of the source's plan, those of the target's."""
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
    """What moves when the parameters of one plan are to lie as another one has them.

    cluster: the topology that both plans' devices are part of; None = the larger of the two, with
    more units on its slowest level where `first` needs them. Raises PlanError where the plans have
    other parameters or optimizers, or lie on devices of which no cluster is known.
    """
    _check(source, target, state)
    cluster = _of_several_kinds(source, target, first, cluster) or _of_one_kind(
        source, target, first, cluster
    )
    return transfer(
        _items(source, target, STATES[state], first),
        wiring_of(cluster, calibration or default_calibration()),
        from_plan=source.plan.id,
        to_plan=target.plan.id,
    )


def _of_several_kinds(
    source: PlanDocuments, target: PlanDocuments, first: int, cluster: Topology | None
) -> Topology | None:
    """The mixed cluster that both plans are for; None where all have devices of one kind."""
    given = [own for own in (source.topology, target.topology, cluster) if own is not None]
    if not any(own.beside for own in given):
        return None
    if first or len({own.id for own in given}) > 1:
        mixed = next(own for own in given if own.beside)
        raise PlanError(
            f"{mixed.name or 'a topology'} has several kinds of devices; what moves from there or "
            "to there is planned between plans for that same topology, both from its first device"
        )
    return given[0]


def _of_one_kind(
    source: PlanDocuments, target: PlanDocuments, first: int, cluster: Topology | None
) -> Topology:
    reach = max(source.topology.device_count, first + target.topology.device_count)
    if cluster is None:
        return _joint(source.topology, target.topology, reach)
    if cluster.device_count < reach:
        raise PlanError(
            f"the plans lie on the devices 0 to {reach - 1}, the cluster {cluster.name!r} has "
            f"{cluster.device_count}"
        )
    return cluster


def _items(
    source: PlanDocuments, target: PlanDocuments, states: tuple[TransferState, ...], first: int
) -> Iterator[Item]:
    dtypes = {tensor.name: tensor.dtype for tensor in source.graph.tensors}
    for state in states:
        held = {own.tensor: (own, site) for own, site in _resting(source, 0, state)}
        for parameter, site in _resting(target, first, state):
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
    """What a checkpoint has of a plan: its parameters, without the caches of inference."""
    own = {tensor.name for tensor in documents.graph.tensors if tensor.role == "parameter"}
    for stage in documents.plan.stages:
        begin = first + stage.ranks_from
        site = PlacedMesh(stage.mesh, np.arange(begin, begin + stage.mesh.device_count))
        for parameter in stage.parameters:
            if parameter.tensor in own:
                yield parameter, site


def _resting(
    documents: PlanDocuments, first: int, state: TransferState
) -> Iterator[tuple[ParameterPlan, PlacedMesh]]:
    """Parameters, and the devices that hold a state of them: its owners, where it is dealt out."""
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
    """The same parameters, and an optimizer state that can be taken over."""
    one, other = _shapes(source), _shapes(target)
    for name, shape in other.items():
        found = one.get(name)
        if found != shape:
            has = f"has it in the shape {list(found)}" if found is not None else "has none"
            raise PlanError(
                f"the plans are of different models: parameter {name!r} of the shape {list(shape)} "
                f"is in the target's plan, the source's {has}"
            )
    left = [name for name in one if name not in other]
    if left and target.setup.phase == "training":
        raise PlanError(
            f"the plans are of different models: parameter {left[0]!r} is in the source's plan only"
        )
    dtypes = [{t.name: t.dtype for t in plan.graph.tensors} for plan in (source, target)]
    for name in other:
        if dtypes[0].get(name) != dtypes[1].get(name):
            raise PlanError(
                f"parameter {name!r} is {dtypes[0].get(name)} in the source's graph and "
                f"{dtypes[1].get(name)} in the target's; plan both with one dtype"
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
            "the source's plan holds no optimizer state, which the target's needs; "
            "with --state value only the parameters move"
        )
    if not wants or not has:
        return
    for field in ("optimizer", "master_dtype"):
        one, other = getattr(source.setup, field), getattr(target.setup, field)
        if one != other:
            raise PlanError(
                f"the optimizer state of the source's plan cannot be taken over: {field} is {one} "
                f"there and {other} in the target's setup; with --state value only the parameters "
                "move"
            )


def _shapes(documents: PlanDocuments) -> dict[str, tuple[int, ...]]:
    return {own.tensor: own.value.shape for own, _ in _parameters(documents, 0)}


def _joint(source: Topology, target: Topology, reach: int) -> Topology:
    """The cluster of both plans where one can be told."""
    small, large = sorted((source, target), key=lambda topology: topology.device_count)
    why = ""
    if small.device.name != large.device.name:
        why = f"one is for {small.device.name}, one for {large.device.name}"
    elif not _within(small, large):
        why = "their nodes differ"
    elif reach > large.device_count and len(large.levels) == 1:
        why = "of what joins them nothing is known"
    if why:
        raise PlanError(
            f"the plans do not say which cluster both lie in: {why}; name it with --cluster, and "
            "with --first the device at which the second plan begins"
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
