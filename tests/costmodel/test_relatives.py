"""Devices without measurements have the curves of a device that resembles them."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_costmodel.curves import rates_of
from meshwright_costmodel.presets import preset, presets


def of(name: str) -> str | None:
    curves = rates_of(published_calibration(), preset(f"{name}-1x8").device).curves
    return None if curves is None else curves.device


@pytest.mark.parametrize("name", presets())
def test_every_preset_has_curves_of_its_own_or_a_named_relative(name: str) -> None:
    device = preset(f"{name}-1x8").device.name
    named = json.loads(files("meshwright_costmodel").joinpath("relatives.json").read_bytes())
    measured = {curves.device for curves in published_calibration().curves}
    assert (device in measured) != (device in named)
    assert device in measured or named[device] in measured


def test_an_h20_is_a_hopper_and_no_v100_of_almost_the_same_peak() -> None:
    assert of("h20") == "NVIDIA H100 SXM5 80GB"
    assert of("910c") == "Huawei Ascend 910B3 64GB"
    assert of("tpu-v5e") == "NVIDIA A100 SXM4 80GB"


def test_another_device_of_a_vendor_has_the_curves_of_the_vendor() -> None:
    known = preset("mi300x-1x8").device
    mine = known.model_copy(
        update={"name": "AMD Next", "flops_per_s": {"float32": 1e14, "bfloat16": 1e15}}
    )
    curves = rates_of(published_calibration(), mine).curves
    assert curves is not None
    assert curves.device == known.name
    unknown = mine.model_copy(update={"name": "of my own"})
    curves = rates_of(published_calibration(), unknown).curves
    assert curves is not None
    assert curves.device == "NVIDIA H100 SXM5 80GB"
    assert rates_of(datasheet_calibration(), mine).curves is None
