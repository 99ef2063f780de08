"""Requests for tests, and what the planner answers."""

from __future__ import annotations

from meshwright.schema import Infeasible, Plan, Request, Setup, Topology
from solver.planner import plan
from tests.solver.small_graphs import GraphMaker

ONE_BATCH = Setup(microbatches=1)


def planned(request: Request) -> Plan:
    answer = plan(request)
    assert answer.infeasible is None
    assert answer.plan is not None
    return answer.plan


def refused(request: Request) -> Infeasible:
    answer = plan(request)
    assert answer.plan is None
    assert answer.infeasible is not None
    return answer.infeasible


def transformer_mlp(batch: int, *, rows: int = 64, width: int = 2048) -> GraphMaker:
    """An embedding, a normalised MLP on a residual stream, a classifier."""
    maker = GraphMaker("bfloat16", batch=batch)
    shape = ["batch", rows, width]
    wide = ["batch", rows, 4 * width]
    ids = maker.input("ids", "batch", rows, dtype="int64")
    x = maker.op("embedding", [maker.parameter("words", 1024, width), ids], shape, "embed")
    normal = maker.op("rms_norm", [x, maker.parameter("scale", width)], shape, "norm")
    up = maker.op("linear", [normal, maker.parameter("w up", 4 * width, width)], wide, "up")
    act = maker.op("gelu", [up], wide, "act")
    down = maker.op("linear", [act, maker.parameter("w down", width, 4 * width)], shape, "down")
    x = maker.op("add", [x, down], shape, "residual")
    head = maker.parameter("w head", 1024, width)
    logits = maker.op("linear", [x, head], ["batch", rows, 1024], "head")
    label = maker.tensor("label", ["batch", rows], "label", dtype="int64")
    maker.op("cross_entropy", [logits, label], [], "loss")
    return maker


def mlp_request(batch: int, devices: Topology, **sizes: int) -> Request:
    graph = transformer_mlp(batch, **sizes).graph("loss:out", loss="loss:out")
    return Request(graph=graph, topology=devices, setup=ONE_BATCH)
