"""Lookups of all indices of a dim in order, which are views.

x[arange(b)[:, None], arange(s)[None, :]]  is x
x[arange(h)[:, None, None]]                is x[:, None, None]
"""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def drop_identity_indices(program: Program) -> None:
    """Convert an index of whole dims in order to a reshape."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind not in ("index", "index_select") or len(node.inputs) < 2:
            continue
        source, *indices = node.inputs
        dims = [node.attrs["dim"]] if node.kind == "index_select" else node.attrs["dims"]
        # the result has the dims of the indices in place of the leading dims of the source
        if list(dims) != list(range(len(indices))):
            continue
        rank = max(index.rank for index in indices)
        counted = [_counted_dim(upstream, index, rank) for index in indices]
        places = [place for place in counted if place is not None]
        if len(places) < len(indices) or places != sorted(set(places)):
            continue
        if all(max(i.shape) == source.shape[d] for d, i in enumerate(indices)):
            node.kind, node.inputs, node.attrs = "reshape", [source], {}


def _counted_dim(upstream: Upstream, index: Value, rank: int) -> int | None:
    """The dim along which an index counts 0, 1, 2, ..., of `rank` dims; None for another index."""
    if sum(size != 1 for size in index.shape) != 1:
        return None
    source = index
    while (view := upstream.producer(source, "reshape")) is not None:
        source = view.inputs[0]
    count = upstream.producer(source, "arange")
    if count is None or (count.attrs["start"], count.attrs["step"]) != (0, 1):
        return None
    (dim,) = (d for d, size in enumerate(index.shape) if size != 1)
    return dim + rank - index.rank
