"""Samples made with a known calibration give it back."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.calibrations import default_calibration
from costmodel.collectives import Collective, Interconnect, collective_ns
from costmodel.fitting import NAMES, fit_calibration
from costmodel.operators import op_ns
from costmodel.presets import preset
from meshwright.schema import Calibration, InvalidInput
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples

H100 = preset("h100-2x8")
DEFAULT = default_calibration()
TRUE = DEFAULT.model_copy(
    update={
        "efficiency": DEFAULT.efficiency.model_copy(
            update={"matmul": 0.5, "attention": 0.3, "memory": 0.6}
        ),
        "link_efficiency": 0.7,
        "launch_ns": 9000,
    }
)
KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "all_to_all", "send")


def samples(true: Calibration = TRUE, noise: float = 0.0, wrong: int = 0) -> Samples:
    """What an agent would measure where the calibration is true."""
    random = np.random.default_rng(0)
    links = Interconnect.of(H100, true)
    kernels = []
    for size in (256, 1024, 4096, 8192):
        for kind, flops, moved in (
            ("matmul", 2.0 * size**3, 6.0 * size**2),
            ("attention", 256.0 * size**2, 1e3 * size),
            ("memory", 1.0, 4.0 * size**2),
            ("launch", 0.0, 0.0),
        ):
            op_class = "memory" if kind == "launch" else kind
            ns = op_ns(
                op_class, flops, bytes_moved=moved, dtype="bfloat16", device=H100.device,
                calibration=true,
            )  # fmt: skip
            kernels.append((kind, size, flops, moved, ns * np.exp(noise * random.normal())))
    among = [
        (kind, extents, payload, collective_ns(kind, extents, payload_bytes=payload,
                                               interconnect=links))
        for kind in KINDS
        for extents in (((1, 2), (2, 1)) if kind == "send" else ((1, 8), (2, 1), (2, 8)))
        for payload in (2**12, 2**20, 2**28)
    ]  # fmt: skip
    for place in range(wrong):
        among[place * 7] = (*among[place * 7][:3], among[place * 7][3] * 20)
    return Samples(
        backend="nccl",
        topology=H100,
        measured_at="2026-11-22T00:00:00+00:00",
        kernels=tuple(
            KernelSample(
                kind=kind, dtype="bfloat16", shape=(size,), flops=flops, bytes_moved=moved, ns=ns,
                spread_ns=0, runs=9,
            )
            for kind, size, flops, moved, ns in kernels
        ),
        collectives=tuple(
            CollectiveSample(
                kind=kind, dtype="float32", payload_bytes=payload, extents=extents,
                ns=ns * np.exp(noise * random.normal()), spread_ns=0, runs=9,
            )
            for kind, extents, payload, ns in among
        ),
    )  # fmt: skip


def close(found: Calibration, rel: float) -> None:
    assert found.efficiency.matmul == pytest.approx(0.5, rel=rel)
    assert found.efficiency.attention == pytest.approx(0.3, rel=rel)
    assert found.efficiency.memory == pytest.approx(0.6, rel=rel)
    assert found.link_efficiency == pytest.approx(0.7, rel=rel)
    assert found.launch_ns == pytest.approx(9000, rel=rel)


def test_fitting_gives_back_what_made_the_samples():
    found = fit_calibration(samples())
    close(found, 0.05)
    assert found.fitted is not None
    assert found.fitted.median_error < 0.02
    assert found.fitted.samples == samples().id


def test_noise_and_wrong_samples_move_it_little():
    close(fit_calibration(samples(noise=0.1)), 0.2)
    close(fit_calibration(samples(wrong=4)), 0.15)


def test_what_was_not_measured_keeps_the_default_and_says_how_unsure_it_is():
    own = samples()
    found = fit_calibration(own.model_copy(update={"collectives": ()}))
    assert found.link_efficiency == pytest.approx(DEFAULT.link_efficiency, rel=0.01)
    assert found.efficiency.convolution == DEFAULT.efficiency.convolution
    assert found.exposed == DEFAULT.exposed
    assert found.fitted is not None
    assert set(found.fitted.spreads) == set(NAMES)
    assert found.fitted.spreads["link"] > 4 * found.fitted.spreads["matmul"]


def test_shares_stay_shares_where_devices_are_faster_than_their_sheet():
    faster = TRUE.model_copy(update={"link_efficiency": 1.0})
    own = samples(faster)
    quick = own.model_copy(
        update={"collectives": tuple(c.like(ns=c.ns / 2) for c in own.collectives)}
    )
    assert fit_calibration(quick).link_efficiency == pytest.approx(1.0)


def test_samples_of_other_devices_or_another_cluster_are_refused():
    with pytest.raises(InvalidInput, match="A100"):
        fit_calibration(samples(), preset("a100-2x8"))
    with pytest.raises(InvalidInput, match="another cluster"):
        fit_calibration(samples(), preset("h100-1x8"))
    nothing = samples().model_copy(update={"kernels": (), "collectives": ()})
    with pytest.raises(InvalidInput, match="no samples"):
        fit_calibration(nothing)
