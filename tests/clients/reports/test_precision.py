"""A note on matrix products in float32 names the options of lower precision."""

from __future__ import annotations

from meshwright.render import plan_text
from meshwright.reports.precision import graph_precision, plan_precision
from meshwright.schema import Degrees, Plan
from meshwright_solver.planning.planner import plan
from tests.one_stage import one_stage_request
from tests.solver.layered import layered
from tests.solver.small_graphs import topology, toy_calibration

GRAPH = layered(4, batch=64, width=512)
CLUSTER = topology(4)  # four times as fast in bfloat16


def planned() -> Plan:
    degrees = Degrees(dp=4)
    calibration = toy_calibration()
    request = one_stage_request(
        graph=GRAPH, topology=CLUSTER, calibration=calibration, degrees=degrees
    )
    found = plan(request).plan
    assert found is not None
    return found


def test_a_plan_in_float32_is_noted_on_devices_that_are_faster_in_bfloat16() -> None:
    made = planned().model_copy(update={"model_flops": {"float32": 1e12}})
    note = plan_precision(made, CLUSTER)
    assert note is not None
    assert "at 10 TFLOP/s of a device; low precision has 40." in note
    assert "`--dtype bfloat16`" in note
    text = " ".join(plan_text(made, graph=GRAPH, topology=CLUSTER).split())
    assert f"note: {note}" in text


def test_a_plan_in_low_precision_is_not() -> None:
    made = planned().model_copy(update={"model_flops": {"float32": 1e9, "bfloat16": 1e12}})
    assert plan_precision(made, CLUSTER) is None
    assert plan_precision(made.model_copy(update={"model_flops": {"float32": 1.0}}), None) is None


def test_devices_without_a_faster_dtype_have_no_note() -> None:
    device = CLUSTER.device.model_copy(update={"flops_per_s": {"float32": 1e13}})
    plain = CLUSTER.model_copy(update={"device": device})
    made = planned().model_copy(update={"model_flops": {"float32": 1e12}})
    assert plan_precision(made, plain) is None


def test_a_graph_with_all_products_in_float32_is_noted() -> None:
    note = graph_precision(GRAPH)
    dtypes = {GRAPH.tensor(op.outputs[0]).dtype for op in GRAPH.ops if op.kind == "linear"}
    assert (note is not None) == (dtypes == {"float32"})
