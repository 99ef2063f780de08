"""Sums taken straight over an input: every device adds its own part of it."""

from __future__ import annotations

import pytest

from meshwright.schema import Pin, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology


@pytest.mark.parametrize("rows", [8, 15])
@pytest.mark.parametrize("factor", ["d0", "d1"])
def test_devices_that_sum_an_input_share_it(factor: str, rows: int) -> None:
    make = GraphMaker()
    x = make.input("x", rows, 8)
    weight = make.parameter("w", 8, 8)
    kept = [rows] if factor == "d1" else [8]
    total = make.op("sum", [x], kept, "total", attrs={"dims": [1 if factor == "d1" else 0]})
    other = make.op("matmul", [x, weight], [rows, 8], "product")
    shifted = make.op("mean", [other], [], "one", attrs={"dims": [0, 1]})
    scaled = make.op("mul", [total, shifted], kept, "scaled")
    loss = make.op("sum", [scaled], [], "loss", attrs={"dims": [0]})
    graph = make.graph(loss, loss=loss)
    devices = topology(4)
    setup = Setup(microbatches=1, uneven="chunk")
    pins = (Pin(op="total", strategy={factor: ("gpu",)}),)
    answer = plan(toy_request(graph=graph, topology=devices, setup=setup, pins=pins))
    assert answer.plan is not None
    found = verify(problem(graph, devices, setup), answer.plan)
    assert found.outcome == "verified", found.detail
