"""Throughput of plans: rates, model FLOPs utilization, and the kinds of ops that take most time."""

from __future__ import annotations

import pytest

from meshwright.reports.op_times import kind_times
from meshwright.reports.throughput import throughput_of
from meshwright.schema import Plan, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.one_stage import one_stage_request
from tests.solver.layered import layered
from tests.solver.small_graphs import topology, toy_calibration

GRAPH = layered(4, batch=8)


def planned(devices: int = 2) -> Plan:
    request = one_stage_request(
        graph=GRAPH, topology=topology(devices), calibration=toy_calibration()
    )
    found = plan(request).plan
    assert found is not None
    return found


def test_utilization_is_the_time_at_peak_over_the_step() -> None:
    """2 devices of 1e12 FLOP/s and 4e9 FLOPs a step: 2 ms at the peak, of 8."""
    made = planned()
    cost = made.cost.model_copy(update={"step_ns": 8e6})
    cluster = topology(2)
    device = cluster.device.model_copy(update={"flops_per_s": {"float32": 1e12, "bfloat16": 2e12}})
    cluster = cluster.model_copy(update={"device": device})
    for flops, share in (
        ({"float32": 4e9}, 0.25),
        ({"bfloat16": 4e9}, 0.125),
        ({"float32": 4e9, "bfloat16": 4e9}, 0.375),
        ({"float8_e4m3": 4e9}, 0.125),  # at the rate of the next wider dtype
    ):
        stated = made.model_copy(update={"cost": cost, "model_flops": flops})
        throughput = throughput_of(stated, GRAPH, cluster, Setup())
        assert throughput.utilization == pytest.approx(share)
        assert throughput.model_flops == sum(flops.values())
    assert throughput.samples_per_s == pytest.approx(8 / 8e-3)
    assert throughput.tokens_per_s is None
    assert throughput.per_device(throughput.samples_per_s) == pytest.approx(500)


def test_unknown_inputs_give_no_rates() -> None:
    made = planned()
    throughput = throughput_of(made, None, None, Setup())
    assert throughput.samples_per_s is throughput.utilization is None
    silent = made.model_copy(update={"model_flops": {}})
    assert throughput_of(silent, GRAPH, topology(2), Setup()).utilization is None


def test_a_plan_on_one_group_of_a_mixed_cluster_counts_its_devices() -> None:
    made = planned(8)
    cluster = preset("h100-1x8")
    alone = throughput_of(made, GRAPH, cluster, Setup()).utilization
    assert alone is not None
    twice = preset("h100-2x8")
    assert throughput_of(made, GRAPH, twice, Setup()).utilization == pytest.approx(alone)


def test_kinds_of_ops_by_time() -> None:
    made = planned()
    times = kind_times(made)
    assert [time.kind for time in times][:1] == ["linear"]
    assert sum(time.share for time in times) == pytest.approx(1)
    ops = [op for stage in made.stages for op in stage.ops]
    assert {time.kind for time in times} == {op.kind for op in ops}
    (linear,) = [time for time in times if time.kind == "linear"]
    assert linear.compute_ns == pytest.approx(
        sum(op.compute_ns for op in ops if op.kind == "linear")
    )
