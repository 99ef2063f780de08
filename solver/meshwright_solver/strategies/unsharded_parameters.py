"""Parameters that a request excludes from optimizer parallelism, by name."""

from __future__ import annotations

from meshwright.schema import Graph, Request, RequestError
from meshwright_solver.common.name_globs import Names, alike


def unsharded_parameters(request: Request) -> frozenset[str]:
    """The parameters of the request's graph that its globs match."""
    wish = request.constraints.optimizer_parallel
    if wish is None or not wish.unsharded:
        return frozenset()
    parameters = _parameters(request.graph)
    names = Names(parameters)
    return frozenset(parameters[k] for glob in wish.unsharded for k in names.matching(glob))


def check_unsharded(request: Request) -> None:
    """Raise RequestError for a glob that matches no parameter of the whole graph."""
    wish = request.constraints.optimizer_parallel
    if wish is None or not wish.unsharded:
        return
    parameters = _parameters(request.graph)
    names = Names(parameters)
    for number, glob in enumerate(wish.unsharded):
        if not names.matching(glob):
            raise RequestError(
                f"optimizer_parallel: unsharded {glob[:80]!r} matches no parameter"
                + (f"; there are parameters like {alike(glob, parameters)}" if parameters else ""),
                pointer=f"/constraints/optimizer_parallel/unsharded/{number}",
            )


def _parameters(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.tensors if tensor.role == "parameter"]
