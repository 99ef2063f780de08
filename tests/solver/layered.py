"""A small network of equal layers, for the tests of pipelines."""

from __future__ import annotations

from meshwright.schema import Graph
from tests.solver.small_graphs import GraphMaker


def layered(
    layers: int = 4, *, batch: int = 8, width: int = 64, tied: bool = False, skip: bool = False
) -> Graph:
    """Embedding, layers of a residual product, classifier.

    tied: the classifier's weights are the embedding's. skip: the first layer's result is added to
    the last one's.
    """
    maker = GraphMaker(batch=batch)
    shape = ["batch", 4, width]
    ids = maker.input("ids", "batch", 4, dtype="int64")
    words = maker.parameter("words", 32, width)
    x = first = maker.op("embedding", [words, ids], shape, "embed")
    for layer in range(layers):
        weight = maker.parameter(f"w{layer}", width, width)
        made = maker.op("linear", [x, weight], shape, f"{layer}.linear")
        made = maker.op("gelu", [made], shape, f"{layer}.act")
        x = maker.op("add", [x, made], shape, f"{layer}.add")
        first = x if layer == 0 else first
    if skip:
        x = maker.op("add", [x, first], shape, "skip")
    head = words if tied else maker.parameter("head", 32, width)
    logits = maker.op("linear", [x, head], ["batch", 4, 32], "logits")
    flat = maker.op("reshape", [logits], ["4*batch", 32], "flat")
    label = maker.tensor("label", ["4*batch"], "label", dtype="int64")
    maker.op("cross_entropy", [flat, label], [], "loss")
    return maker.graph("loss:out", loss="loss:out")
