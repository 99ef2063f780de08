"""Stretches worked by hand; p parts of a shape never take less in all than the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.schema import Calibration, Device
from meshwright.schema.curves import Constant
from meshwright.schema.samples import KernelSample
from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_costmodel.curves import Rates, Shape, rates_of
from meshwright_costmodel.operators import op_ns
from meshwright_costmodel.predicted_samples import kernel_sample_ns
from meshwright_costmodel.presets import preset
from tests.costmodel.round_curves import round_curves

DEVICE = Device(
    name="any", memory_bytes=1, memory_bytes_per_s=1e12,
    flops_per_s={"float32": 1e13, "bfloat16": 1e14, "float8_e4m3": 2e14},
)  # fmt: skip
FLAT = datasheet_calibration()
CURVED: Calibration = FLAT.model_copy(update={"curves": (round_curves(),), "launch_ns": 1000})
RATES = rates_of(CURVED, DEVICE)
SIZES = st.floats(1, 1e5)


def test_a_product_takes_its_edges_a_wave_and_the_ends_of_its_depth():
    # 1,000 x 900 results are taken for 1,100 x 1,000 + 10^6 = 2.1 * 10^6, 450 deep for 500
    stretch = RATES.stretch("matmul", Shape(1, 1000, 900, 450), "bfloat16")
    assert stretch == pytest.approx(2.1e6 / 9e5 * 500 / 450)


def test_groups_have_their_edges_each_and_one_wave_together():
    stretch = RATES.stretch("matmul", Shape(8, 100, 900, 450), "bfloat16")
    assert stretch == pytest.approx((8 * 200 * 1000 + 1e6) / (8 * 100 * 900) * 500 / 450)


def test_the_products_of_gradients_have_the_sizes_in_other_places():
    own = Shape(2, 3, 5, 7)
    # x[3 x 7] w[5 x 7] -> y[3 x 5]: dx is 3 x 7 over 5, dw 7 x 5 over 3
    assert own.of_left == Shape(2, 3, 7, 5)
    assert own.of_right == Shape(2, 7, 5, 3)


def test_attention_takes_longer_with_small_heads_and_few_rows():
    # 1 + 300 / (536 + 64), and 1 + 64 / 64 beside 1 + 64 / 128
    stretch = RATES.stretch("attention", Shape(8, 536, 500, 64), "bfloat16")
    assert stretch == pytest.approx(1.5 * 2 / 1.5)
    assert RATES.stretch("attention", Shape(1, 1e9, 500, 128), "bfloat16") == pytest.approx(1)


def test_the_shorter_of_arithmetic_and_traffic_is_hidden_but_for_a_share():
    # 10^9 / (10^14 * 0.5) = 20 us; 5 * 10^6 / (10^12 * 0.5) = 10 us, a quarter of it felt
    time = op_ns(
        "matmul", 1e9, bytes_moved=5e6, dtype="bfloat16", device=DEVICE, calibration=CURVED
    )
    assert time == pytest.approx(20_000 + 2_500 + 1_000)


def test_8_bit_numbers_have_their_own_share_of_their_own_peak():
    time = op_ns(
        "matmul", 1.6e9, bytes_moved=0.0, dtype="float8_e4m3", device=DEVICE, calibration=CURVED
    )
    assert time == pytest.approx(1.6e9 / (2e14 * 0.5 * 0.8) * 1e9 + 1_000)


def test_the_ends_of_the_depth_are_a_time_in_which_twice_as_many_8_bit_numbers_are_done():
    # 450 deep for 500, and 900 deep for 1,000
    short = RATES.stretch("matmul", Shape(1, 1000, 900, 450), "bfloat16")
    long = RATES.stretch("matmul", Shape(1, 1000, 900, 900), "float8_e4m3")
    assert long == pytest.approx(short)


def test_without_curves_no_shape_is_stretched():
    flat = rates_of(FLAT, DEVICE)
    assert flat.stretch("matmul", Shape(1, 2, 3, 4), "bfloat16") == 1
    assert flat.peak_share("matmul", "float8_e4m3") == FLAT.efficiency.matmul
    assert flat.unhidden("matmul") == 0


def test_a_device_without_curves_takes_those_of_the_nearest_peak():
    own = CURVED.model_copy(
        update={"curves": (round_curves("slow", 1e13), round_curves("quick", 9e13))}
    )
    rates = rates_of(own, DEVICE)
    assert rates.curves is not None
    assert rates.curves.device == "quick"
    # 10/9 of its peak: as many more elements are under way, 1.11 * 10^6
    taken = 1100 * 1000 + 1e6 * 10 / 9
    stretch = rates.stretch("matmul", Shape(1, 1000, 900, 1e9), "bfloat16")
    assert stretch == pytest.approx(taken / 9e5)


@given(SIZES, SIZES, SIZES, SIZES, st.integers(0, 3), st.floats(1, 64))
def test_parts_never_take_less_in_all_than_the_whole(groups, rows, columns, depth, cut, ways):
    whole = [groups, rows, columns, depth]
    part = list(whole)
    part[cut] /= ways
    assert RATES.stretch("matmul", Shape(*part), "bfloat16") >= RATES.stretch(
        "matmul", Shape(*whole), "bfloat16"
    ) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("size", "factor"),
    [(4096, 1.0), (216, 1.0), (108, 1.5), (150, 2.5), (30522, 2.5), (50257, 5.0)],
)
def test_a_product_with_an_unaligned_dim_takes_several_times_as_long(
    size: int, factor: float
) -> None:
    rates = rates_of(published_calibration(), preset("h100-1x8").device)
    assert rates.misalignment("bfloat16", (4096.0, float(size))) == factor
    assert rates.misalignment("float16", (float(size), 4096.0)) == factor
    # plain float32 has no tensor cores, and 8 bits need twice as many elements
    assert rates.misalignment("float32", (4096.0, float(size))) == 1.0
    assert rates.misalignment("float8_e4m3", (8.0,)) == 1.5


@given(st.integers(1, 100_000), st.sampled_from([2, 3, 4, 6, 8]))
def test_cutting_a_dim_never_mends_its_alignment(size: int, ways: int) -> None:
    rates = rates_of(published_calibration(), preset("h100-1x8").device)
    whole = rates.misalignment("bfloat16", (float(size),))
    assert rates.misalignment("bfloat16", (float(size), size / ways)) >= whole


def test_every_group_of_a_grouped_product_is_launched_and_a_single_one_is_a_plain_product() -> None:
    launches = Constant(value=4.0, spread=0.5, source="chosen: by hand")
    product = CURVED.curves[0].product.like(group_launches=launches)
    curves = CURVED.curves[0].like(product=product)
    rates = Rates(CURVED, curves)
    assert rates.group_launches(np.array([1.0, 2.0, 16.0]), eight_bit=False).tolist() == [0, 8, 64]
    assert rates.group_launches(16.0, eight_bit=True) == 0
    assert Rates(FLAT, None).group_launches(16.0, eight_bit=False) == 0


@pytest.mark.parametrize(("dtype", "kept"), [("bfloat16", 0.8), ("float8_e4m3", 0.9)])
def test_a_product_keeps_a_share_of_its_rate_in_a_step_and_all_of_it_alone(
    dtype: str, kept: float
) -> None:
    shares = {
        "sustained": Constant(value=0.8, spread=0.1, source="chosen: by hand"),
        "sustained_eight_bit": Constant(value=0.9, spread=0.1, source="chosen: by hand"),
    }
    plain = CURVED.curves[0]
    curves = plain.like(product=plain.product.like(**shares))
    in_step, alone = Rates(CURVED, curves), Rates(CURVED, plain)
    assert in_step.peak_share("matmul", dtype) == kept * alone.peak_share("matmul", dtype)
    assert in_step.sustained("matmul", dtype) == kept
    assert in_step.sustained("attention", dtype) == alone.sustained("matmul", dtype) == 1
    calibration = CURVED.model_copy(update={"curves": (curves,)})
    sample = KernelSample(
        kind="matmul", dtype=dtype, shape=(4096, 4096, 4096), flops=2 * 4096**3,
        bytes_moved=3 * 4096**2, ns=1.0, spread_ns=0, runs=1,
    )  # fmt: skip
    device = preset("h100-1x8").device
    found, before = (kernel_sample_ns(sample, device, own) for own in (calibration, CURVED))
    assert found == pytest.approx(before)
