"""Small models of sizes that few device counts divide: a GPT, experts, convolutions."""

from __future__ import annotations

from meshwright.schema import Graph
from tests.solver.small_graphs import GraphMaker


def gpt(
    *, batch: int = 64, seq: int = 32, heads: int = 12, width: int = 96, vocabulary: int = 50257
) -> Graph:
    """One block with a fused q|k|v projection, and the embedding once more as the head."""
    make = GraphMaker(batch=batch, seq=seq)
    ids = make.input("ids", "batch", "seq", dtype="int64")
    labels = make.tensor("labels", ["batch", "seq"], "label", dtype="int64")
    rows = ["batch", "seq"]
    wte = make.parameter("wte", vocabulary, width)
    x = make.op("embedding", [wte, ids], [*rows, width], "embed")
    h = make.op("layer_norm", [x, make.parameter("g", width), make.parameter("b", width)],
                [*rows, width], "norm", attrs={"dims": 1})  # fmt: skip
    fused = make.op("linear", [h, make.parameter("wqkv", 3 * width, width)],
                    [*rows, 3 * width], "qkv")  # fmt: skip
    turned = []
    for name, part in zip("qkv", make.split(fused, [[*rows, width]] * 3, 2, "parts"), strict=True):
        apart = make.op("reshape", [part], [*rows, heads, width // heads], f"{name} apart")
        shape = ["batch", heads, "seq", width // heads]
        turn = {"dims": [0, 2, 1, 3]}
        turned.append(make.op("transpose", [apart], shape, f"{name} turned", attrs=turn))
    shape = ["batch", heads, "seq", width // heads]
    mixed = make.op("attention", turned, shape, "attention", attrs={"causal": True})
    turn = {"dims": [0, 2, 1, 3]}
    back = make.op("transpose", [mixed], [*rows, heads, width // heads], "back", attrs=turn)
    flat = make.op("reshape", [back], [*rows, width], "flat")
    x = make.op("add", [x, make.op("linear", [flat, make.parameter("wo", width, width)],
                                   [*rows, width], "o")], [*rows, width], "add")  # fmt: skip
    up = make.op("linear", [x, make.parameter("w1", 4 * width, width)], [*rows, 4 * width], "up")
    act = make.op("gelu", [up], [*rows, 4 * width], "gelu")
    down = make.op("linear", [act, make.parameter("w2", width, 4 * width)], [*rows, width], "down")
    logits = make.op("linear", [down, wte], [*rows, vocabulary], "head")
    loss = make.op("cross_entropy", [logits, labels], [], "loss")
    return make.graph(loss, loss=loss)


def experts(*, batch: int = 60, count: int = 15, width: int = 64) -> Graph:
    """Seven tokens a row go to two of the experts and come back; the loss is the mean of all."""
    make = GraphMaker(batch=batch)
    rows, places = ["batch", 7], ["batch", 2]
    x = make.op("linear", [make.input("x", *rows, width), make.parameter("w", width, width)],
                [*rows, width], "first")  # fmt: skip
    scores = make.op("linear", [x, make.parameter("router", count, width)],
                     [*rows, count], "router")  # fmt: skip
    soft = make.op("softmax", [scores], [*rows, count], "softmax", attrs={"dim": 2})
    best, chosen = make.tensor("best", [*rows, 2]), make.tensor("chosen", [*rows, 2], dtype="int64")
    make.ops.append({"name": "topk", "kind": "topk", "inputs": [soft], "outputs": [best, chosen],
                     "attrs": {"k": 2, "dim": 2}})  # fmt: skip
    sent = make.op("moe_dispatch", [x, chosen], [count, *places, width], "dispatch")
    up = make.op("expert_matmul", [sent, make.parameter("up", count, 2 * width, width)],
                 [count, *places, 2 * width], "up", attrs={"weight_layout": "efh"})  # fmt: skip
    act = make.op("gelu", [up], [count, *places, 2 * width], "gelu")
    down = make.op("expert_matmul", [act, make.parameter("down", count, width, 2 * width)],
                   [count, *places, width], "down", attrs={"weight_layout": "efh"})  # fmt: skip
    joined = make.op("moe_combine", [down, chosen, best], [*rows, width], "combine")
    loss = make.op("mean", [joined], [], "loss", attrs={"dims": [0, 1, 2], "keepdim": False})
    return make.graph(loss, loss=loss)


def convolutions(*, batch: int = 44, channels: int = 60) -> Graph:
    """A strided convolution, a batch norm, a pool and a classifier of 1,000 classes."""
    make = GraphMaker(batch=batch)
    x = make.input("x", "batch", 3, 16, 16)
    pads = {"padding": [1, 1], "stride": [2, 2]}
    h = make.op("conv", [x, make.parameter("w", channels, 3, 3, 3)],
                ["batch", channels, 8, 8], "conv", attrs=pads)  # fmt: skip
    h = make.op("batch_norm", [h, make.parameter("g", channels), make.parameter("b", channels)],
                ["batch", channels, 8, 8], "norm")  # fmt: skip
    h = make.op("relu", [h], ["batch", channels, 8, 8], "relu")
    h = make.op("mean", [h], ["batch", channels], "pool", attrs={"dims": [2, 3]})
    labels = make.tensor("labels", ["batch"], "label", dtype="int64")
    logits = make.op("linear", [h, make.parameter("wc", 1000, channels)], ["batch", 1000], "head")
    loss = make.op("cross_entropy", [logits, labels], [], "loss")
    return make.graph(loss, loss=loss)
