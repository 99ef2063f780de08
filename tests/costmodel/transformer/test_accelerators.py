from __future__ import annotations

import pytest

from costmodel.transformer.accelerators import accelerator, stand_in


@pytest.mark.parametrize(
    ("written", "tflops", "generation", "relative"),
    [
        ("A100-SXM-80GB", 312, "ampere", None),
        ("A800-SXM-80GB", 312, "ampere", None),
        ("NVIDIA H800", 989.4, "hopper", None),
        ("H200-SXM-141GB", 989.4, "hopper", "H100"),
        ("GB200 NVL72", 2500, "blackwell", "B200"),
        ("B300", 2250, "blackwell", "B200"),
        ("V100-SXM2-32GB", 125, "ampere", "A100"),
        ("Ascend 910B", 294.912, "ampere", "A100"),
        ("TPU v5p", 459, "hopper", "H100"),
        ("MI300X", 1307.4, "hopper", "H100"),
    ],
)
def test_names_in_tables_are_known(
    written: str, tflops: float, generation: str, relative: str | None
):
    found = accelerator(written)
    assert found is not None
    assert found.flops_per_s == pytest.approx(tflops * 1e12)
    assert (found.generation, found.relative) == (generation, relative)


def test_a_40_gb_a100_has_less_bandwidth():
    large, small = accelerator("A100-SXM-80GB"), accelerator("A100-SXM-40GB")
    assert large is not None
    assert small is not None
    assert small.memory_bytes_per_s < large.memory_bytes_per_s


def test_single_precision_is_half_as_fast_where_devices_have_tf32():
    for name, share in (("H100", 0.5), ("TPU v4", 0.5), ("V100-SXM2-32GB", 0.125)):
        found = accelerator(name)
        assert found is not None
        assert found.single_flops_per_s / found.flops_per_s == pytest.approx(share, rel=0.01)


def test_an_unknown_device_takes_the_constants_of_the_nearest_peak():
    assert accelerator("Abacus") is None
    assert stand_in("Abacus", 900e12, 64e9).generation == "hopper"
    assert stand_in("Abacus", 200e12, 64e9).generation == "ampere"
