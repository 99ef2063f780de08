"""Outputs that a pin states after their reduction: planned, executed in numpy, or refused."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import pytest

from meshwright.schema import Graph, Pin, PlanError, Request, RequestError, Topology
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology

FACTORS = {"matmul": "mkn", "linear": "mkn", "embedding": "mkn"}  # rows, summed, columns
SIZES = (16, 32, 64)


def graph_of(kind: str, readers: int, sizes: tuple[int, int, int]) -> Graph:
    """An op `made` that sums k, its readers, and a loss."""
    m, k, n = sizes
    maker = GraphMaker(batch=m)
    if kind == "embedding":
        ids = maker.tensor("ids", ["batch"], "input", dtype="int64")
        inputs = [maker.parameter("w", k, n), ids]
    else:
        x = maker.op("gelu", [maker.input("x", "batch", k)], ["batch", k], "first")
        inputs = [x, maker.parameter("w", *((n, k) if kind == "linear" else (k, n)))]
    y = maker.op(kind, inputs, ["batch", n], "made")
    read = [maker.op(name, [y], ["batch", n], name) for name in ("gelu", "tanh")[:readers]]
    total = read[0] if readers == 1 else maker.op("add", read, ["batch", n], "total")
    loss = maker.op("mean", [total], [], "loss", attrs={"dims": [0, 1], "keepdim": False})
    return maker.graph(loss=loss)


def pin_of(kind: str, ways: tuple[int, int, int], out: tuple[int, int]) -> Pin:
    m, k, n = ways
    inputs = {"matmul": ((m, k), (k, n)), "linear": ((m, k), (n, k)), "embedding": ((k, n), (m,))}
    return Pin(op="made", inputs=inputs[kind], outputs=(out,))


def request_of(graph: Graph, devices: Topology, pin: Pin, **wishes: Any) -> Request:
    return toy_request(graph=graph, topology=devices, pins=(pin,), **wishes)


def cases(seed: int) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[int, int]]]:
    """Kind, readers, levels, cuts of the factors, and cuts of the output."""
    draw = random.Random(seed)
    found = []
    while len(found) < 6:
        levels = draw.choice([(4,), (8,), (2, 2), (2, 4), (4, 2)])
        ways = tuple(draw.choice([1, 2, 4]) for _ in range(3))
        rows = draw.choice([1, 2, 4])
        if prod(ways) > prod(levels) or ways[1] == 1 or ways[1] % rows:
            continue
        if draw.random() < 0.3:
            ways = (1, prod(levels), 1)
            rows = ways[1]
        out = (ways[0] * rows, ways[2] * (ways[1] // rows))
        found.append((draw.choice(list(FACTORS)), draw.choice([1, 2]), levels, ways, out))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_partial_sums_are_scattered_as_stated(seed: int):
    for kind, readers, levels, ways, out in cases(seed):
        devices = topology(*levels)
        graph = graph_of(kind, readers, tuple(random.Random(seed).choices(SIZES, k=3)))
        request = request_of(graph, devices, pin_of(kind, ways, out))
        found = planned(request)
        made = next(t for t in found.stages[0].tensors if t.tensor == "made:out")
        mesh = found.stages[0].mesh
        assert made.read is not None
        assert tuple(mesh.size(dim.axes) for dim in made.read.value.dims) == out, (kind, ways)
        assert not made.read.value.partial
        steps = [
            step.kind
            for move in found.stages[0].redistributions
            if move.tensor == "made:out" and move.op is None
            for step in move.forward
        ]
        assert set(steps) == {"reduce_scatter"}, (kind, ways, out, steps)
        done = verify_documents(found, graph, devices, request.setup, request.calibration)
        assert done.outcome == "verified", done.detail


@pytest.mark.parametrize(
    "solver", ["dynamic_programming", "recursive_programming", "semi_auto", "sharding_propagation"]
)
def test_every_search_keeps_a_stated_output(solver: Any):
    graph = graph_of("matmul", 1, (16, 32, 64))
    pin = pin_of("matmul", (2, 2, 1), (4, 1))
    request = request_of(graph, topology(2, 2), pin, solver=solver)
    found = planned(request)
    made = next(t for t in found.stages[0].tensors if t.tensor == "made:out")
    assert made.read is not None
    assert [found.stages[0].mesh.size(dim.axes) for dim in made.read.value.dims] == [4, 1]
    verify_documents(found, graph, request.topology, request.setup, request.calibration)


def test_axes_are_stated_by_name():
    graph = graph_of("matmul", 1, (16, 32, 64))
    pin = Pin(op="made", inputs=(("node", "gpu"), ("gpu", 1)), outputs=((("node", "gpu"), 1),))
    found = planned(request_of(graph, topology(2, 2), pin))
    made = next(t for t in found.stages[0].tensors if t.tensor == "made:out")
    assert made.read is not None
    assert str(made.read.value) == "[16@node@gpu, 64]"


def test_a_plan_that_reduces_otherwise_breaks_its_wish():
    graph, devices = graph_of("matmul", 2, (16, 32, 64)), topology(4)
    stated = request_of(graph, devices, pin_of("matmul", (2, 2, 1), (2, 2)))
    found = planned(request_of(graph, devices, pin_of("matmul", (2, 2, 1), (4, 1))))
    changed = found.model_copy(
        update={"wishes": found.wishes.model_copy(update={"pins": stated.pins})}
    )
    with pytest.raises(PlanError, match=r"breaks its wish pins\[0\].*readers get 'made:out'"):
        verify_documents(changed, graph, devices, stated.setup, stated.calibration)


@pytest.mark.parametrize(
    ("ways", "out", "message"),
    [
        ((4, 1, 1), (2, 1), "the inputs cut it into 4 .* Use a multiple of 4"),
        ((2, 1, 1), (4, 1), "no partial sums .* Cut the summed dim of the inputs into 2 parts"),
        ((1, 2, 1), (4, 1), "partial sums of 2 devices only"),
    ],
)
def test_layouts_that_no_collective_gives_are_refused(
    ways: tuple[int, int, int], out: tuple[int, int], message: str
):
    graph = graph_of("matmul", 1, (16, 32, 64))
    with pytest.raises(RequestError, match=message):
        plan(request_of(graph, topology(8), pin_of("matmul", ways, out)))


def test_an_output_alone_is_meant_as_the_op_makes_it():
    graph = graph_of("matmul", 1, (16, 32, 64))
    found = planned(request_of(graph, topology(4), Pin(op="made", outputs=((4, 1),))))
    made = next(op for op in found.stages[0].ops if op.op == "made")
    assert list(made.strategy) == ["m"]
