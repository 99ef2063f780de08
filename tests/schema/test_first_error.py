"""A wrong document costs the memory of one error, however many there are in it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from meshwright.schema import Graph, GraphError, InvalidInput, Request, Topology
from tests.service.samples import GRAPH, TOPOLOGY, graph, request

X = GRAPH["tensors"][0]
MANY = 20_000
MOST_BYTES = 1 << 20  # of a single error some kilobytes; all errors took 10 MB and more


@pytest.mark.parametrize(
    ("kind", "document", "pointer"),
    [
        (Graph, graph(ops=[{}] * MANY), "/ops/0/name"),
        (Graph, graph(tensors=[{}] * MANY), "/tensors/0/name"),
        (Graph, graph(notes=["right", *[1] * MANY]), "/notes/1"),
        (Graph, graph(symbols={f"s{i}": "x" for i in range(MANY)}), "/symbols/s0"),
        (Graph, graph(tensors=[{**X, "shape": [None] * MANY}]), "/tensors/0/shape/0"),
        (Topology, {**TOPOLOGY, "levels": [{}] * MANY}, "/levels/0/name"),
        (Request, request(topology=TOPOLOGY, graph=graph(ops=[1] * MANY)), "/graph/ops/0"),
    ],
)  # fmt: skip
def test_validation_ends_at_the_first_wrong_item(
    kind: type[Any], document: dict[str, Any], pointer: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput) as refused:
            kind.from_dict(document)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.pointer == pointer
    assert peak_bytes < MOST_BYTES


def test_every_type_that_would_do_is_still_named() -> None:
    tensor = {**X, "shape": [4, None, None]}
    with pytest.raises(GraphError, match=r"/shape/1: .*valid integer or: .*valid string"):
        Graph.from_dict(graph(tensors=[tensor]))
