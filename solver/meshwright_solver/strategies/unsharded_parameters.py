"""Parameters that a request excludes from optimizer parallelism, by name."""

from __future__ import annotations

from fnmatch import fnmatchcase

from meshwright.schema import Graph, Request, RequestError
from meshwright_solver.common.name_globs import alike


def unsharded_parameters(request: Request) -> frozenset[str]:
    """The parameters of the request's graph that its globs match."""
    wish = request.constraints.optimizer_parallel
    if wish is None or not wish.unsharded:
        return frozenset()
    names = _parameters(request.graph)
    return frozenset(n for n in names if any(fnmatchcase(n, glob) for glob in wish.unsharded))


def check_unsharded(request: Request) -> None:
    """Raise RequestError for a glob that matches no parameter of the whole graph."""
    wish = request.constraints.optimizer_parallel
    names = _parameters(request.graph) if wish is not None and wish.unsharded else []
    for number, glob in enumerate(wish.unsharded if wish is not None else ()):
        if not any(fnmatchcase(name, glob) for name in names):
            raise RequestError(
                f"optimizer_parallel: unsharded {glob[:80]!r} matches no parameter"
                + (f"; there are parameters like {alike(glob, names)}" if names else ""),
                pointer=f"/constraints/optimizer_parallel/unsharded/{number}",
            )


def _parameters(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.tensors if tensor.role == "parameter"]
