from __future__ import annotations

import pytest

from meshwright.schema import InvalidInput
from meshwright_costmodel.anchoring import anchored
from meshwright_costmodel.calibrations import default_calibration, published_calibration
from meshwright_costmodel.collectives import Interconnect, collective_ns
from meshwright_costmodel.operators import op_ns
from meshwright_costmodel.presets import preset

DEFAULT = default_calibration()
H100 = preset("h100-2x8")


def product_ns(calibration) -> float:
    return op_ns(
        "matmul", 1e12, bytes_moved=1e8, dtype="bfloat16", device=H100.device,
        calibration=calibration,
    )  # fmt: skip


def test_everything_takes_the_median_longer():
    own = anchored(DEFAULT, [1.2, 9.0, 1.5], "mine")
    assert product_ns(own) == pytest.approx(1.5 * product_ns(DEFAULT), rel=1e-4)
    times = [
        collective_ns(
            "all_gather", (2, 8), payload_bytes=1e12, interconnect=Interconnect.of(H100, each)
        )
        for each in (own, DEFAULT)
    ]
    assert times[0] == pytest.approx(1.5 * times[1], rel=1e-4)
    assert own.exposed == DEFAULT.exposed
    assert own.anchored is not None
    assert (own.anchored.observations, own.anchored.stack) == (3, "mine")


def test_a_share_stays_a_share():
    own = anchored(DEFAULT, [0.1], "")
    assert own.efficiency.matmul == 1.0
    assert own.link_efficiency == 1.0


def test_an_anchored_calibration_is_not_anchored_again():
    with pytest.raises(InvalidInput, match=DEFAULT.id):
        anchored(anchored(DEFAULT, [2.0], ""), [2.0], "")


def test_curves_take_longer_as_shares_do():
    curved = published_calibration()
    own = anchored(curved, [1.2], "")
    assert product_ns(own) == pytest.approx(1.2 * product_ns(curved), rel=1e-2)
    for payload in (0.0, 1e5, 1e12):
        times = [
            collective_ns(
                "all_gather", (2, 8), payload_bytes=payload,
                interconnect=Interconnect.of(H100, each),
            )
            for each in (own, curved)
        ]  # fmt: skip
        # latencies of links are not the calibration's
        assert times[0] == pytest.approx(1.2 * times[1], rel=0.1)
