"""A step has what its stack takes to start an op, once for each pass of the op."""

from __future__ import annotations

from typing import Literal

import pytest

from meshwright.schema import Execution, Setup
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology

Phase = Literal["training", "inference"]


def step_ns(execution: Execution, phase: Phase, microbatches: int) -> float:
    """Of three products and an activation on one device."""
    maker = GraphMaker(batch=64)
    x = maker.input("x", "batch", 256)
    for k in range(3):
        x = maker.op("linear", [x, maker.parameter(f"w{k}", 256, 256)], ["batch", 256], f"fc{k}")
        if k == 1:
            x = maker.op("gelu", [x], ["batch", 256], "act")
    graph = maker.graph(x)
    setup = Setup(phase=phase, microbatches=microbatches, execution=execution)
    return planned(toy_request(graph, topology(1), setup=setup)).cost.step_ns


@pytest.mark.parametrize(("phase", "passes"), [("inference", 1), ("training", 2)])
@pytest.mark.parametrize("microbatches", [1, 2])
def test_stacks_differ_by_their_launches(phase: Phase, passes: int, microbatches: int) -> None:
    """5 µs each on the toys' host; 0.5 µs in a graph, where nothing else changes."""
    eager, compiled, graphs = (
        step_ns(execution, phase, microbatches) for execution in ("eager", "compiled", "graphs")
    )
    each = passes * microbatches
    assert eager - compiled == pytest.approx(each * 5000)  # the activation's
    assert compiled - graphs == pytest.approx(each * 3 * (5000 - 500))
