"""Tables that may have sparse gradients, by name.

A table is a trainable parameter that one lookup alone reads, since another reader's gradient would
be dense. A table may have a sparse gradient if a pattern of the request matches it, or if its
lookup has the attribute `sparse` (torch's `nn.Embedding(sparse=True)`).
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

from meshwright.schema import Graph, Op, Request, RequestError
from meshwright_solver.common.name_globs import alike

LOOKUP = "embedding"  # the kind of op that reads rows of its table's first dim


def with_sparse_tables(request: Request) -> Request:
    """The request with the names of allowed tables in place of its patterns.

    Outside of training the request stays as it is. Raises RequestError for a pattern that matches
    no table.
    """
    tables = _tables(request.graph)
    globs = request.constraints.sparse_gradients
    for index, glob in enumerate(globs):
        if not any(fnmatchcase(name, glob) for name in tables):
            raise RequestError(
                f"sparse_gradients: {glob[:80]!r} matches no trained parameter that one op of kind "
                f"{LOOKUP} alone reads"
                + (f"; there are tables like {alike(glob, list(tables))}" if tables else ""),
                pointer=f"/constraints/sparse_gradients/{index}",
            )
    if request.setup.phase != "training":
        return request
    names = tuple(
        name
        for name, op in tables.items()
        if op.attrs.get("sparse") is True or any(fnmatchcase(name, glob) for glob in globs)
    )
    constraints = request.constraints.model_copy(update={"sparse_gradients": names})
    return request.model_copy(update={"constraints": constraints})


def sparse_lookups(request: Request) -> frozenset[str]:
    """Ops whose tables may have sparse gradients, for a request of `with_sparse_tables`."""
    allowed = {*request.constraints.sparse_gradients}
    if not allowed:
        return frozenset()
    return frozenset(op.name for name, op in _tables(request.graph).items() if name in allowed)


def _tables(graph: Graph) -> dict[str, Op]:
    """Tables by name, with the op that looks up their rows."""
    counts = Counter(name for op in graph.ops for name in op.inputs)
    trained = {
        tensor.name for tensor in graph.tensors if tensor.role == "parameter" and tensor.trainable
    }
    return {
        op.inputs[0]: op
        for op in graph.ops
        if op.kind == LOOKUP and op.inputs[0] in trained and counts[op.inputs[0]] == 1
    }
