from __future__ import annotations

import pytest

from bench.closed_form.accelerators import accelerator, stand_in


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
        ("Ascend910", 256, "ampere", "A100"),
        ("Ascend-910B2", 353.9, "ampere", "A100"),
        ("Atlas 800T A2", 294.912, "ampere", "A100"),
        ("GB300-NVL72", 2500, "blackwell", "B200"),
        ("H100-PCIe", 756, "hopper", "H100"),
        ("TPUv5p", 459, "hopper", "H100"),
        ("Ironwood", 2307, "blackwell", "B200"),
        ("trn2", 667, "hopper", "H100"),
        ("Intel Gaudi 3", 1678, "hopper", "H100"),
        ("MI355X", 2516.6, "blackwell", "B200"),
        ("A40", 149.7, "ampere", "A100"),
        ("L40S", 362, "hopper", "H100"),
        ("L4", 121, "hopper", "H100"),
        ("RTX 6000 Ada", 364, "hopper", "H100"),
        ("RTX 5090", 209.5, "blackwell", "B200"),
        ("V100-PCIE-32GB", 112, "ampere", "A100"),
        ("TPU v2", 45, "ampere", "A100"),
        ("Atlas 900 A3 SuperPoD", 752, "ampere", "A100"),
        ("H800 PCIe", 756, "hopper", "H100"),
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


@pytest.mark.parametrize(
    ("written", "gigabytes"),
    [("V100-SXM2-16GB", 17.2), ("V100-SXM2-32GB", 34.4), ("H20", 103), ("H20-3e", 141),
     ("A800-SXM-40GB", 42.9), ("Ascend 910B4", 34.4), ("GB300", 300), ("TPU v5e", 17.2)],
)  # fmt: skip
def test_models_of_a_device_have_their_own_memory(written: str, gigabytes: float):
    found = accelerator(written)
    assert found is not None
    assert found.memory_bytes / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_another_maker_s_v100_is_unknown():
    assert accelerator("BI-V100") is None


def test_a_device_s_best_product_is_held_against_its_relative_s():
    names = ("MI300X", "GB200", "H200")
    shares = [own.best_product for own in map(accelerator, names) if own is not None]
    assert shares == pytest.approx([0.51 / 0.80, 0.73 / 0.78, 1])


def test_devices_older_than_ampere_have_no_fused_attention():
    for name, fused in (
        ("V100", False),
        ("V100 16GB", False),
        ("T4", False),
        ("A100", True),
        ("910B", True),
    ):
        found = accelerator(name)
        assert found is not None
        assert found.flash is fused


def test_single_precision_is_half_as_fast_where_devices_have_tf32():
    for name, share in (("H100", 0.5), ("TPU v4", 0.5), ("V100-SXM2-32GB", 0.125)):
        found = accelerator(name)
        assert found is not None
        assert found.single_flops_per_s / found.flops_per_s == pytest.approx(share, rel=0.01)


def test_an_unknown_device_takes_the_constants_of_the_nearest_peak():
    assert accelerator("Abacus") is None
    assert stand_in("Abacus", 900e12, 64e9).generation == "hopper"
    assert stand_in("Abacus", 200e12, 64e9).generation == "ampere"
