"""Published products and collectives: all rows accounted for, and told better by curves."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from bench.published_calibration import fitted, prior_of
from bench.published_kernels import Sent, collectives, products, table
from meshwright.schema.curves import DeviceCurves
from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_costmodel.presets import preset, presets


def test_every_row_is_predicted_or_says_why_not():
    found = collectives()
    assert len(found.rows) + sum(found.skipped.values()) == 481
    assert len(products()) == 50


def test_a_bandwidth_without_a_time_gives_the_time():
    # H200, 8 GiB among 8 at a bus bandwidth of 365.6 GB/s: 2 * 7/8 * 8 GiB / that
    (row,) = [
        own for own in collectives().rows
        if own.device == "h200" and own.members == 8 and own.payload_bytes == 2**33
        and own.is_in_switch is False
    ]  # fmt: skip
    assert row.ns == pytest.approx(2 * 7 / 8 * 2**33 / 365.6)


def test_curves_tell_most_sources_better_than_flat_shares():
    better = 0
    for line in table():
        flat, curved = (float(cell) for cell in line.strip("| ").split(" | ")[-2:])
        better += curved < flat
    assert better >= len(table()) * 0.7


def test_messages_between_nodes_are_no_longer_told_half():
    """The 1 to 64 MiB of two nodes that a straight line told up to three times too short."""
    rows = [
        own for own in collectives().rows
        if own.nodes == 2 and 2**20 <= own.payload_bytes <= 2**26
    ]  # fmt: skip
    assert len(rows) == 21

    def ratios(calibration):
        return sorted(own.predicted_ns(calibration) / own.ns for own in rows)

    assert ratios(datasheet_calibration())[len(rows) // 2] < 0.6
    curved = ratios(published_calibration())
    assert 0.8 < curved[len(rows) // 2] < 1.25
    assert curved[0] > 0.5


def test_every_device_of_the_calibration_is_a_preset_and_has_measurements_or_a_relative():
    own = {each.device: each.relative for each in published_calibration().curves}
    assert own.keys() <= {preset(f"{name}-1x8").device.name for name in presets()}
    assert own["NVIDIA H200 SXM 141GB"] == "NVIDIA H100 SXM5 80GB"
    assert own["NVIDIA H100 SXM5 80GB"] is None


def test_every_constant_of_the_published_calibration_says_where_it_is_from():
    for curves in published_calibration().curves:
        for name, constant in curves.constants():
            assert constant.source.split(":")[0] in ("fitted", "published", "chosen"), name
            assert 0 < constant.spread <= 1


def test_a_fit_tells_the_rows_of_a_device_better_than_what_was_known_before() -> None:
    flat = datasheet_calibration()
    prior = prior_of("ampere", 108)
    found = fitted(prior, "a100-80g", flat)
    rows = [own for own in (*products(), *collectives().rows) if own.device == "a100-80g"]

    def error(curves: DeviceCurves) -> float:
        own = flat.model_copy(update={"curves": (curves.like(device=found.device),)})
        return fmean(abs(np.log(row.predicted_ns(own) / row.ns)) for row in rows)

    before = prior.like(flops_per_s=found.flops_per_s)
    assert error(found) < 0.15 < 2 * error(found) < error(before)


def test_rows_of_nodes_name_their_groups():
    row = next(own for own in collectives().rows if own.nodes == 4)
    assert isinstance(row, Sent)
    assert row.extents == (4, 8)
