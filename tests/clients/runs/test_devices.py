"""Devices by the names that tables give them."""

from __future__ import annotations

import pytest

from meshwright.runs.devices import device_of_peak, known_device
from meshwright_costmodel.calibrations import published_calibration
from meshwright_costmodel.curves import rates_of


@pytest.mark.parametrize(
    ("written", "tflops", "relative"),
    [
        ("A100-SXM-80GB", 312, "A100"),
        ("A800-SXM-80GB", 312, "A100"),
        ("NVIDIA H800", 989.4, "H100"),
        ("H200-SXM-141GB", 989.4, "H200"),
        ("GB200 NVL72", 2500, "B200"),
        ("B300", 2250, "B200"),
        ("V100-SXM2-32GB", 125, "V100"),
        ("Ascend 910B", 294.912, "910B"),
        ("TPU v5p", 459, "H100"),
        ("MI300X", 1307.4, "MI300X"),
        ("Ascend910", 256, "910A"),
        ("Ascend-910B2", 353.9, "910B"),
        ("Atlas 800T A2", 294.912, "910B"),
        ("GB300-NVL72", 2500, "B200"),
        ("H100-PCIe", 756, "H100"),
        ("Ironwood", 2307, "B200"),
        ("trn2", 667, ""),
        ("Intel Gaudi 3", 1678, ""),
        ("MI355X", 2516.6, "MI300X"),
        ("A40", 149.7, "A100"),
        ("L40S", 362, "A100"),
        ("RTX 5090", 209.5, "A100"),
        ("H800 PCIe", 756, "H100"),
    ],
)
def test_names_in_tables_are_known(written: str, tflops: float, relative: str) -> None:
    found = known_device(written)
    assert found is not None
    peak = max(found.device.peak_flops_per_s(dtype) for dtype in ("float16", "bfloat16"))
    assert peak == pytest.approx(tflops * 1e12, rel=0.02)
    curves = rates_of(published_calibration(), found.device).curves
    assert curves is not None
    assert relative in curves.device


@pytest.mark.parametrize(
    ("written", "gigabytes"),
    [("V100-SXM2-16GB", 17.2), ("V100-SXM2-32GB", 34.4), ("H20", 103), ("H20-3e", 141),
     ("A800-SXM-40GB", 42.9), ("Ascend 910B4", 34.4), ("GB300", 279), ("TPU v5e", 17.2)],
)  # fmt: skip
def test_models_of_a_device_have_their_own_memory(written: str, gigabytes: float) -> None:
    found = known_device(written)
    assert found is not None
    assert found.device.memory_bytes / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_another_maker_s_v100_is_unknown() -> None:
    assert known_device("BI-V100") is None


@pytest.mark.parametrize(
    ("name", "fused"),
    [("V100", False), ("V100 16GB", False), ("T4", False), ("A100", True), ("Ascend 910B", True)],
)
def test_devices_older_than_ampere_have_no_fused_attention(name: str, fused: bool) -> None:
    found = known_device(name)
    assert found is not None
    assert found.has_flash is fused


@pytest.mark.parametrize(("name", "share"), [("H100", 0.5), ("TPU v4", 0.5), ("V100", 0.125)])
def test_single_precision_is_half_as_fast_where_devices_have_tf32(name: str, share: float) -> None:
    found = known_device(name)
    assert found is not None
    single, *plain = (
        found.device.peak_flops_per_s(dtype) for dtype in ("float32", "float16", "bfloat16")
    )
    assert single / max(plain) == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(
    ("name", "devices", "per_node", "sizes"),
    [
        ("H100", 64, 8, [8, 8]),
        ("A100", 8, 8, [8]),
        ("H100", 12, 3, [4, 3]),
        ("GB200 NVL72", 144, 72, [2, 72]),
        ("H100", 32, 16, [2, 16]),
        ("L40S", 16, 8, [2, 8]),
        ("TPU v5p", 512, 512, [8, 8, 8]),
        ("TPU v5e", 256, 256, [16, 16]),
        ("Ascend 910A", 16, 8, [2, 2, 4]),
    ],
)
def test_devices_stand_in_their_nodes(
    name: str, devices: int, per_node: int, sizes: list[int]
) -> None:
    found = known_device(name)
    assert found is not None
    topology = found.topology(devices, per_node)
    assert [level.size for level in topology.levels] == sizes
    assert topology.device == found.device


def test_a_device_of_an_unknown_name_has_its_peak() -> None:
    assert known_device("Abacus") is None
    found = device_of_peak("Abacus", 900e12, 64e9)
    assert found.device.peak_flops_per_s("bfloat16") == 900e12
    assert found.topology(16, 8).device_count == 16
