"""Sums of rows by number: messages of the edges of a graph to its nodes, bags of embeddings.

    index_add(zeros, 0, index, rows)                   -> unsorted_segment_sum(rows, index)
    scatter_add(zeros, 0, expand(index), rows)         -> unsorted_segment_sum(rows, index)
    embedding_bag(table, indices, arange(0, n, k))     -> sum(embedding(table, indices [n/k, k]), 1)

A sum into zeros can be taken over parts of the rows, which a sum into another tensor cannot.
"""

from __future__ import annotations

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Node, Program, Value

_BAG = ("aten.embedding_bag.default", "aten.embedding_bag.padding_idx")
_MODES = {0: "sum", 1: "mean", 2: "amax"}


def recognize_segment_sums(program: Program) -> None:
    """Replace sums into zeros and bags of equal length by ops that shard by rows."""
    upstream = Upstream(program)
    additions: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if node.kind in _BAG:
            additions[node] = _bag(upstream, node)
        elif node.kind in ("index_add", "scatter_add") and len(node.inputs) == 3:
            index = _rows_of(upstream, node)
            if index is not None:
                additions[node] = index[1]
                node.kind, node.attrs = "unsorted_segment_sum", {}
                node.inputs = [node.inputs[2], index[0]]
    program.insert_before(additions)


def _rows_of(upstream: Upstream, node: Node) -> tuple[Value, list[Node]] | None:
    """The number of the sum that every row goes into, where the sums start at zero."""
    start, index, rows = node.inputs
    zeros = upstream.producer(upstream.through(start, "expand"), "full")
    if zeros is None or zeros.attrs["value"] != 0 or node.attrs["dim"] != 0:
        return None
    if node.attrs.get("alpha", 1) != 1 or index.shape[0] != rows.shape[0]:
        return None
    if start.shape[1:] != rows.shape[1:]:
        return None
    if node.kind == "index_add" or index.rank == 1:
        return index, []
    narrow = upstream.through(index, "expand")
    # one number for each row, which the expand repeats along the row
    if index.shape != rows.shape or narrow.shape != (rows.shape[0], *(1,) * (rows.rank - 1)):
        return None
    flat = Value("", (rows.shape[0],), index.dtype)
    return flat, [Node("reshape", [narrow], [flat], {}, node.module)]


def _bag(upstream: Upstream, node: Node) -> list[Node]:
    """The rows of the bags; the node becomes their sum. No nodes where bags are ragged."""
    table, indices, offsets = node.inputs[:3]
    count = offsets.shape[0]
    length, rest = divmod(indices.shape[0], count)
    numbers = upstream.producer(offsets, "arange")
    padding = node.attrs.get("padding_idx", -1)
    if indices.rank != 1 or rest or node.attrs.get("include_last_offset") or padding >= 0:
        return []
    if numbers is None or (numbers.attrs.get("start", 0), numbers.attrs.get("step", 1)) != (
        0,
        length,
    ):
        return []
    width, module = table.shape[1], node.module
    bags = Value("", (count, length), indices.dtype)
    rows = Value("", (count, length, width), table.dtype)
    attrs = {"sparse": True} if node.attrs.get("sparse") else {}
    steps = [
        Node("reshape", [indices], [bags], {}, module),
        Node("embedding", [table, bags], [rows], attrs, module),
    ]
    if len(node.inputs) > 3:
        weights = Value("", (count, length, 1), node.inputs[3].dtype)
        weighted = Value("", rows.shape, rows.dtype)
        steps.append(Node("reshape", [node.inputs[3]], [weights], {}, module))
        steps.append(Node("mul", [rows, weights], [weighted], {}, module))
        rows = weighted
    node.kind, node.inputs = _MODES[int(node.attrs.get("mode", 0))], [rows]
    node.attrs = {"dims": [1], "keepdim": False}
    return steps
