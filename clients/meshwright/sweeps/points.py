"""Points of a sweep, and the planning request of a point."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

from meshwright.schema import Calibration, Graph, Request, RequestError, Setup, Topology, Wishes
from meshwright.schema.setup import Precision
from meshwright.schema.sweep import MAX_POINTS, Sweep, SweepPoint
from meshwright.schema.target import Target, setup_for
from meshwright.sweeps.name_patterns import expanded


def points_of(sweep: Sweep) -> tuple[SweepPoint, ...]:
    """The points of a sweep without duplicates; RequestError for more than MAX_POINTS."""
    precisions: tuple[Precision | None, ...] = sweep.precisions or (None,)
    targets: tuple[Target | None, ...] = sweep.targets or (sweep.target,)
    axes = (
        tuple(topologies_of(sweep)),
        sweep.batches or (None,),
        sweep.sequences or (None,),
        precisions,
        targets,
    )
    count = prod(map(len, axes))
    if count > MAX_POINTS:
        raise RequestError(
            f"the sweep has {count:,} points, at most {MAX_POINTS} are allowed. Use fewer values",
            pointer="/topologies",
        )
    points = (
        SweepPoint(topology=topology, batch=batch, sequence=sequence, precision=form, target=target)
        for topology, batch, sequence, form, target in product(*axes)
    )
    return tuple(dict.fromkeys(points))


def topologies_of(sweep: Sweep) -> dict[str, str | Topology]:
    """The topologies by the name that points have: documents, ids and names of presets."""
    topologies: dict[str, str | Topology] = {}
    for place, topology in enumerate(sweep.topologies):
        if isinstance(topology, str):
            try:
                topologies.update((name, name) for name in expanded(topology))
            except RequestError as error:
                raise error.within(f"/topologies/{place}") from None
            continue
        name = topology.name or topology.id
        if topologies.get(name, topology) != topology:
            name = topology.id  # another document has the name
        topologies[name] = topology
    return topologies


def setup_of(sweep: Sweep, point: SweepPoint) -> Setup:
    """The setup of a point, without what its target implies."""
    fields: dict[str, Any] = sweep.setup.to_dict()
    if point.batch is not None:
        fields["global_batch"] = point.batch
    if point.sequence is not None:
        fields["symbols"] = {**fields.get("symbols", {}), "seq": point.sequence}
    if point.precision is not None:
        fields["precision"] = point.precision
    return Setup.from_dict(fields)


def wishes_of(sweep: Sweep, point: SweepPoint) -> Wishes:
    """The options of a point; RequestError where its target does not allow them."""
    options = {name: getattr(sweep, name) for name in Wishes.model_fields}
    if point.target is not None:
        # the points without a target show what the restriction costs
        options["budget"] = sweep.budget.like(unrestricted=False)
    return Wishes(**{**options, "target": point.target})


def request_of(
    sweep: Sweep,
    point: SweepPoint,
    graph: Graph,
    topologies: Mapping[str, Topology],
    calibration: Calibration | None = None,
) -> Request:
    """The planning request of a point. topologies: the documents by the names that points have."""
    return Request(
        graph=graph,
        topology=topologies[point.topology],
        setup=setup_for(point.target, setup_of(sweep, point)),
        calibration=calibration,
        **dict(wishes_of(sweep, point)),
    )
