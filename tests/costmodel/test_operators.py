import numpy as np
import pytest

from meshwright.schema import Calibration, Device, Efficiency, Exposed
from meshwright_costmodel.operators import op_ns

DEVICE = Device(
    name="round numbers",
    memory_bytes=10**9,
    memory_bytes_per_s=1e12,
    flops_per_s={"float32": 10e12, "float16": 100e12},
)
CALIBRATION = Calibration(
    name="halves",
    source="round numbers",
    efficiency=Efficiency(matmul=0.5, convolution=0.2, attention=0.25, memory=0.5),
    link_efficiency=1,
    exposed=Exposed(activation=1, parameter=1, gradient=1),
    launch_ns=1000,
)


def ns(op_class, flops, bytes_moved, dtype="float16", steps=1):
    return op_ns(
        op_class,
        flops,
        bytes_moved=bytes_moved,
        steps=steps,
        dtype=dtype,
        device=DEVICE,
        calibration=CALIBRATION,
    )


def test_a_large_matmul_is_bound_by_arithmetic():
    # 50 TFLOP at 100 TFLOP/s x 0.5 = 1 s, and 1 us of launch
    assert ns("matmul", 50e12, 1e9) == pytest.approx(1_000_001_000)


def test_a_thin_matmul_is_bound_by_memory():
    # 1 GB at 1 TB/s x 0.5 = 2 ms
    assert ns("matmul", 1e9, 1e9) == pytest.approx(2_001_000)


def test_each_class_has_its_own_efficiency():
    assert ns("attention", 25e12, 0) == pytest.approx(1_000_001_000)
    assert ns("convolution", 20e12, 0) == pytest.approx(1_000_001_000)
    assert ns("memory", 0, 1e9) == pytest.approx(2_001_000)


def test_a_dtype_without_a_peak_runs_at_the_next_wider_one():
    assert ns("matmul", 50e12, 0, "float8_e4m3") == ns("matmul", 50e12, 0, "float16")
    assert ns("matmul", 5e12, 0, "int64") == ns("matmul", 5e12, 0, "float32")


def test_a_view_costs_nothing():
    assert ns("view", 1e15, 1e15) == 0
    assert ns("view", np.ones(3), np.ones(3)).tolist() == [0, 0, 0]


def test_an_empty_op_costs_its_launch():
    assert ns("memory", 0, 0) == 1000


def test_arrays_of_work_give_the_times_of_their_elements():
    flops, moved = np.array([0, 10**9, 50 * 10**12]), np.array([0, 10**9, 10**9])
    times = ns("matmul", flops, moved)
    assert times.tolist() == [
        ns("matmul", f, b) for f, b in zip(flops.tolist(), moved.tolist(), strict=True)
    ]
    assert isinstance(ns("matmul", 1, 1), float)


def test_steps_that_wait_for_one_another_have_a_least_time():
    # a thousand steps of almost no work: 6.8 us each, and 1 us of launch
    assert ns("matmul", 1e6, 1e3, steps=1000) == pytest.approx(6_801_000)
    # 50 TFLOP at 100 TFLOP/s x 0.5 = 1 s
    assert ns("matmul", 50e12, 1e3, steps=1000) == pytest.approx(1_000_001_000)
