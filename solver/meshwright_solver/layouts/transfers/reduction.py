"""Reduction of partial sources in place, before any data is sent.

A reduce-scatter leaves every device a share to send; an all-reduce leaves whole copies to choose
from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from meshwright.schema import Axis, Dim, Layout, LayoutError, Step, SubDim
from meshwright.transfers.holding import PlacedMesh
from meshwright_costmodel.collectives import Collective, collective_ns
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.layouts.transfers.links import Cluster, Wiring


def reductions(
    layout: Layout, site: PlacedMesh, element_bytes: int, wiring: Wiring
) -> tuple[tuple[Step, ...], ...]:
    """The candidate reductions of a layout, of one step each; no steps where it is not partial.

    Raises LayoutError for a layout that is partial by sum and by maximum, whose order matters.
    """
    if not layout.partial:
        return ((),)
    if len(set(layout.partial.values())) > 1:
        raise LayoutError(
            f"{layout} is partial by sum and by maximum, and their order is not known. Reduce it "
            "over one of them before the transfer"
        )
    axes = tuple(name for name in site.mesh.names if name in layout.partial)
    elements = int(np.prod(layout.local_shape(site.mesh), dtype=np.int64))
    cluster, first = wiring.around(site.devices)
    extents = _extents(site.devices - first, site.mesh.groups(axes), cluster)

    def step(kind: Collective, to: Layout) -> tuple[Step, ...]:
        payload = elements * element_bytes
        return (
            Step(
                kind=kind,  # type: ignore[arg-type]  # the two below are kinds of steps
                axes=axes,
                payload_bytes=payload,
                ns=max(
                    collective_ns(kind, group, payload_bytes=payload, interconnect=cluster.links)
                    for group in extents
                ),
                to=to,
            ),
        )

    whole = layout.model_copy(update={"partial": {}})
    scattered = (step("reduce_scatter", to) for to in _scattered_layouts(whole, site, axes))
    return (step("all_reduce", whole), *scattered)


def _scattered_layouts(
    layout: Layout, site: PlacedMesh, axes: tuple[Axis, ...]
) -> Iterator[Layout]:
    """The layouts with `axes` innermost on one sub-dim, where its chunks divide by them."""
    for d, dim in enumerate(layout.dims):
        # the last part of a dim of segments is split across them, and no reader needs that
        for p, part in enumerate(dim.parts[:-1] if dim.segments else dim.parts):
            ways = site.mesh.size((*part.axes, *axes))
            if part.span is not None or part.chunks or part.size % ways:
                continue
            parts = list(dim.parts)
            parts[p] = SubDim(size=part.size, axes=(*part.axes, *axes))
            dims = list(layout.dims)
            dims[d] = Dim(parts=tuple(parts), segments=dim.segments)
            yield layout.model_copy(update={"dims": tuple(dims)})


def _extents(
    devices: IntArray, groups: Sequence[Sequence[int]], cluster: Cluster
) -> list[tuple[int, ...]]:
    """The distinct extents of the groups on their devices."""
    lying = devices[np.array(groups, dtype=np.int64)]
    before = np.ones(len(lying), dtype=np.int64)
    extents: list[IntArray] = []
    for level in range(len(cluster.links.sizes)):
        units = np.sort(lying // cluster.unit_devices(level), axis=1)
        distinct = (np.diff(units, axis=1) > 0).sum(axis=1) + 1
        extents.append(-(-distinct // before))
        before = distinct
    return [tuple(int(g) for g in row) for row in np.unique(np.array(extents).T, axis=0)]
