"""Which lookup tables may have sparse gradients: what a request allows, by name.

A table is a trainable parameter that one lookup alone reads: another reader's gradient would be of
its size. Allowed are those that a pattern of the request matches, and those of lookups whose graph
says `sparse` (torch's `nn.Embedding(sparse=True)`).
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

from meshwright.schema import Graph, Op, Request, RequestError
from meshwright_solver.common.name_globs import alike

LOOKUP = "embedding"  # whose table is read by rows of its first dim


def with_sparse_tables(request: Request) -> Request:
    """The request with the names of all tables that it allows, in place of its patterns; without
    training as it is.

    Raises RequestError for a pattern that matches no table.
    """
    tables = _tables(request.graph)
    said = request.constraints.sparse_gradients
    for index, glob in enumerate(said):
        if not any(fnmatchcase(name, glob) for name in tables):
            raise RequestError(
                f"sparse_gradients: {glob[:80]!r} matches no trained parameter that one op of kind "
                f"{LOOKUP} alone reads"
                + (f"; there are tables like {alike(glob, list(tables))}" if tables else ""),
                pointer=f"/constraints/sparse_gradients/{index}",
            )
    if request.setup.phase != "training":
        return request
    found = tuple(
        name
        for name, op in tables.items()
        if op.attrs.get("sparse") is True or any(fnmatchcase(name, glob) for glob in said)
    )
    constraints = request.constraints.model_copy(update={"sparse_gradients": found})
    return request.model_copy(update={"constraints": constraints})


def sparse_lookups(request: Request) -> frozenset[str]:
    """Ops whose tables may have sparse gradients, of a request that names its tables."""
    allowed = {*request.constraints.sparse_gradients}
    if not allowed:
        return frozenset()
    return frozenset(op.name for name, op in _tables(request.graph).items() if name in allowed)


def _tables(graph: Graph) -> dict[str, Op]:
    """By name, with the op that looks rows up."""
    counts = Counter(name for op in graph.ops for name in op.inputs)
    trained = {own.name for own in graph.tensors if own.role == "parameter" and own.trainable}
    return {
        op.inputs[0]: op
        for op in graph.ops
        if op.kind == LOOKUP and op.inputs[0] in trained and counts[op.inputs[0]] == 1
    }
