"""Warnings on plans: each where its sign is, and none where it is not."""

from __future__ import annotations

import pytest

from meshwright.render import plan_text
from meshwright.reports.op_times import kind_times
from meshwright.reports.plan_warnings import plan_warnings
from meshwright.reports.throughput import throughput_of
from meshwright.schema import Degrees, MemoryUse, Pin, Plan, Request, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.small_graphs import topology, toy_calibration

GRAPH = layered(4, batch=64, width=512)
CLUSTER = topology(4)


def planned(**wishes: object) -> Plan:
    request = {"graph": GRAPH, "topology": CLUSTER, "calibration": toy_calibration(), **wishes}
    found = plan(Request.model_validate(request)).plan
    assert found is not None
    return found


def stated(utilization: float, *, used: float = 0.5, made: Plan | None = None) -> Plan:
    """A plan of this utilization that takes this share of the memory."""
    made = made or planned(degrees=Degrees(dp=4))
    peak = 4 * CLUSTER.device.peak_flops_per_s("float32")
    memory = MemoryUse(parameters=round(used * 1000), capacity=1000)
    cost = made.cost.model_copy(update={"memory_bytes": memory})
    flops = {"float32": utilization * peak * made.cost.step_ns / 1e9}
    return made.model_copy(update={"cost": cost, "model_flops": flops})


def codes(made: Plan, setup: Setup | None = None) -> list[str]:
    setup = setup or Setup()
    throughput = throughput_of(made, GRAPH, CLUSTER, setup)
    warnings = plan_warnings(made, GRAPH, setup, throughput, kind_times(made))
    return [warning.code for warning in warnings]


@pytest.mark.parametrize(
    ("utilization", "expected"),
    [
        (0.09, ["low-utilization"]),
        (0.11, []),
        (0.64, []),
        (0.66, ["high-utilization"]),
    ],
)
def test_utilization_out_of_the_usual_range(utilization: float, expected: list[str]) -> None:
    assert codes(stated(utilization)) == expected


def test_decoding_has_no_usual_utilization() -> None:
    assert codes(stated(0.01), Setup(phase="inference")) == []


@pytest.mark.parametrize(("used", "expected"), [(0.95, []), (0.96, ["full-memory"])])
def test_a_full_device(used: float, expected: list[str]) -> None:
    assert codes(stated(0.5, used=used)) == expected


def test_a_batch_smaller_than_the_devices_that_leaves_them_slow() -> None:
    small = Setup(global_batch=2)
    assert codes(stated(0.2), small) == ["small-batch"]
    assert codes(stated(0.4), small) == []


def test_a_batch_that_does_not_divide_over_the_devices_names_those_that_do() -> None:
    odd = Setup(global_batch=2 * CLUSTER.device_count + 1)
    assert codes(stated(0.2), odd) == ["indivisible-batch"]
    assert codes(stated(0.4), odd) == []
    assert codes(stated(0.2), odd.like(uneven="chunk")) == []
    made = stated(0.2)
    throughput = throughput_of(made, GRAPH, CLUSTER, odd)
    (warning,) = plan_warnings(made, GRAPH, odd, throughput, kind_times(made))
    count = CLUSTER.device_count
    assert f"such as {2 * count} or {3 * count}, or allow uneven shards" in warning.text


def test_replicated_ops_that_take_long() -> None:
    whole = planned(pins=[Pin(op=f"{layer}.linear", strategy={}) for layer in range(3)])
    made = stated(0.5, made=whole)
    assert "replicated-op" in codes(made)
    (text,) = [
        warning.text
        for warning in plan_warnings(
            made, GRAPH, Setup(), throughput_of(made, GRAPH, CLUSTER, Setup()), kind_times(made)
        )
        if warning.code == "replicated-op"
    ]
    assert text.startswith("Replicated ops of kind linear take ")


def test_optimal_is_said_with_the_warnings_in_the_same_line() -> None:
    made = stated(0.05, used=0.99)
    (line,) = [
        line
        for line in plan_text(made, graph=GRAPH, topology=CLUSTER).splitlines()
        if line.startswith("proof")
    ]
    assert "objective optimal, with low-utilization, full-memory: " in line
    (line,) = [
        line
        for line in plan_text(stated(0.5), graph=GRAPH, topology=CLUSTER).splitlines()
        if line.startswith("proof")
    ]
    assert "objective optimal: " in line
