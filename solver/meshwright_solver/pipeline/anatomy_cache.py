"""Anatomy cache: the graphs that this process planned last, with all that was computed of them.

The points of a sweep, and most requests of a service, are of few graphs.
"""

from __future__ import annotations

from threading import local

from meshwright.schema import Graph, Request
from meshwright_solver.common.recent import Recent
from meshwright_solver.pipeline.stage_graph import Anatomy

# chosen: ops of all graphs that are kept; larger ones take hundreds of MB
_KEPT_OPS = 20_000


class _AnatomyCache(local):
    """The anatomies that a thread used last: their own caches are not thread-safe."""

    def __init__(self) -> None:
        self.anatomies = Recent[Anatomy](lambda anatomy: len(anatomy.graph.ops), _KEPT_OPS)


_CACHE = _AnatomyCache()


def anatomy_of(graph: Graph, *, training: bool = True) -> Anatomy:
    """The anatomy of a graph; one for all requests with a graph of this content."""
    if len(graph.ops) > _KEPT_OPS:
        return Anatomy(graph, training)
    return _CACHE.anatomies.get((graph.id, training), lambda: Anatomy(graph, training))


def with_known_graph(request: Request) -> Request:
    """The request with the graph of its anatomy, an object that equal graphs share."""
    graph = anatomy_of(request.graph).graph
    return request if graph is request.graph else request.model_copy(update={"graph": graph})
