"""Samples made with known curves give back what they say of anything else."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.agent.tasks import KernelTask
from meshwright.schema import Calibration, InvalidInput
from meshwright.schema.curves import CollectiveCurve, Constant
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples
from meshwright_costmodel.calibrations import published_calibration
from meshwright_costmodel.collectives import Collective, Interconnect, collective_ns
from meshwright_costmodel.curve_constants import CurveConstants
from meshwright_costmodel.curves import Shape, rates_of
from meshwright_costmodel.fitting import fit_calibration
from meshwright_costmodel.operators import op_ns
from meshwright_costmodel.presets import preset

H100 = preset("h100-2x8")
DEFAULT = published_calibration()
KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "all_to_all", "send")
SIZES = (256, 512, 1024, 2048, 4096, 8192)
UNSEEN = (384, 3072, 6144)
PAYLOADS = tuple(2**power for power in range(10, 31, 2))


def changed(**factors: float) -> Calibration:
    """The default with the H100's constants times so much, by the last part of their names."""
    (own,) = [own for own in DEFAULT.curves if own.device == H100.device.name]
    constants = CurveConstants.of(own)
    logs = constants.logs + np.log(
        [factors.get(name.rpartition(".")[2], 1.0) for name in constants.names]
    )
    return DEFAULT.model_copy(update={"curves": (constants.with_values(logs),)})


TRUE = changed(
    share=0.7, half_tile=2.0, fill=3.0, half_depth=0.5, memory=0.8, start_ns=2.0, step=1.5
).model_copy(update={"launch_ns": 9000})  # fmt: skip


def kernels(true: Calibration, sizes: tuple[int, ...] = SIZES) -> list[KernelSample]:
    """Squares and narrow products, attention, traffic and launches."""
    found = []
    for size in sizes:
        shapes = {
            "matmul": [(size, size, size), (64, size, size), (size, size, 128)],
            "attention": [(1, 8, size, 128, 1), (4, 16, size, 64, 1)],
            "memory": [(size**2,)],
            "launch": [(100,)],
        }
        for kind, each in shapes.items():
            for shape in each:
                task = KernelTask(kind, "bfloat16", shape)
                flops, moved = task.flops, task.bytes_moved(2)
                rates = rates_of(true, H100.device)
                stretch = 1.0
                if kind == "matmul":
                    stretch = rates.stretch(kind, Shape(1.0, *map(float, shape)), "bfloat16")
                elif kind == "attention":
                    batch, heads, rows, head, _ = shape
                    stretch = rates.stretch(
                        kind, Shape(batch * heads, rows, rows, head), "bfloat16"
                    )
                op_class = "memory" if kind == "launch" else kind
                stretch *= rates.sustained(op_class, "bfloat16")  # a kernel alone keeps its rate
                ns = op_ns(
                    op_class, flops * stretch, bytes_moved=moved,
                    dtype="bfloat16", device=H100.device, calibration=true,
                )  # fmt: skip
                found.append(
                    KernelSample(
                        kind=kind, dtype="bfloat16", shape=shape, flops=flops, bytes_moved=moved,
                        ns=ns, spread_ns=0, runs=9,
                    )
                )  # fmt: skip
    return found


def collectives(true: Calibration, payloads: tuple[int, ...] = PAYLOADS) -> list[CollectiveSample]:
    links = Interconnect.of(H100, true)
    return [
        CollectiveSample(
            kind=kind, dtype="float32", payload_bytes=payload, extents=extents,
            ns=collective_ns(kind, extents, payload_bytes=payload, interconnect=links),
            spread_ns=0, runs=9,
        )
        for kind in KINDS
        for extents in (((1, 2), (2, 1)) if kind == "send" else ((1, 8), (2, 1), (2, 8)))
        for payload in payloads
    ]  # fmt: skip


def samples(true: Calibration = TRUE, noise: float = 0.0, wrong: int = 0) -> Samples:
    """What an agent would measure where the calibration is true."""
    random = np.random.default_rng(0)
    own, among = kernels(true), collectives(true)
    for place in range(wrong):
        among[place * 7] = among[place * 7].like(ns=among[place * 7].ns * 20)
    return Samples(
        backend="nccl",
        topology=H100,
        measured_at="2026-11-22T00:00:00+00:00",
        kernels=tuple(k.like(ns=k.ns * np.exp(noise * random.normal())) for k in own),
        collectives=tuple(c.like(ns=c.ns * np.exp(noise * random.normal())) for c in among),
    )


def off(found: Calibration) -> tuple[float, float, float]:
    """Median, 95th and last percentile of errors of kernels and messages that nobody measured."""
    payloads = tuple(3 * payload for payload in PAYLOADS)
    pairs = [
        *zip(kernels(found, UNSEEN), kernels(TRUE, UNSEEN), strict=True),
        *zip(collectives(found, payloads), collectives(TRUE, payloads), strict=True),
    ]
    errors = [abs(own.ns / true.ns - 1) for own, true in pairs]
    return float(np.median(errors)), float(np.quantile(errors, 0.95)), max(errors)


def test_fitting_tells_shapes_and_messages_that_were_not_measured():
    found = fit_calibration(samples())
    assert off(DEFAULT)[0] > 0.25
    median, most, largest = off(found)
    assert median < 0.01
    assert most < 0.05
    # messages were measured four times apart: between two of them protocols meet
    assert largest < 0.3
    assert found.launch_ns == pytest.approx(9000, rel=0.05)
    assert found.fitted is not None
    assert found.fitted.median_error < 0.02
    assert found.fitted.samples == samples().id


def test_kinds_of_collectives_that_differ_are_told_apart():
    def factor(name: str, start: float, slope: float) -> CollectiveCurve:
        values = [Constant(value=own, spread=0, source="true") for own in (start, slope)]
        return CollectiveCurve(name=name, start=values[0], slope=values[1])

    kinds = (factor("all_reduce", 1.0, 2.5), factor("all_gather", 2.0, 1.0))
    curves = TRUE.curves[0].like(collectives=kinds)
    true = TRUE.model_copy(update={"curves": (curves,)})
    found = fit_calibration(samples(true))
    payloads = tuple(3 * payload for payload in PAYLOADS)
    unseen = zip(collectives(found, payloads), collectives(true, payloads), strict=True)
    assert np.median([abs(own.ns / each.ns - 1) for own, each in unseen]) < 0.05
    own = {each.name: each for each in found.curves[0].collectives}
    assert set(own) == {"all_reduce", "all_gather", "send"}
    assert own["all_reduce"].slope.value / own["all_gather"].slope.value == pytest.approx(
        2.5, rel=0.15
    )
    assert own["all_gather"].start.value / own["all_reduce"].start.value == pytest.approx(
        2, rel=0.15
    )


def test_noise_and_wrong_samples_move_it_little():
    assert off(fit_calibration(samples(noise=0.1)))[0] < 0.06
    assert off(fit_calibration(samples(wrong=4)))[0] < 0.03


def test_every_fitted_constant_says_from_what_and_how_sure():
    found = fit_calibration(samples(noise=0.1))
    share = found.curves[0].product.share
    assert (
        share.source == f"fitted: {len(samples().kernels) + len(samples().collectives)} "
        "samples of 2026-11-22T00:00:00+00:00"
    )
    assert 0 < share.spread < 0.2
    assert share.value == pytest.approx(TRUE.curves[0].product.share.value, rel=0.15)


def test_what_was_not_measured_keeps_what_is_known_of_the_device():
    own = samples()
    found = fit_calibration(own.model_copy(update={"collectives": ()}))
    (known,) = [each for each in DEFAULT.curves if each.device == H100.device.name]
    assert found.curves[0].protocols == known.protocols
    assert found.curves[0].product.eight_bit == known.product.eight_bit
    assert found.efficiency.convolution == DEFAULT.efficiency.convolution
    assert found.exposed == DEFAULT.exposed
    assert found.fitted is not None
    assert "product.share" in found.fitted.spreads
    assert "protocols.Simple.share" not in found.fitted.spreads


def test_a_device_that_nobody_knows_begins_with_the_nearest_and_becomes_its_own():
    device = H100.device.model_copy(update={"name": "mine"})
    mine = H100.model_copy(update={"device": device})
    own = samples().model_copy(update={"topology": mine})
    found = fit_calibration(own)
    assert [(each.device, each.relative) for each in found.curves] == [("mine", None)]
    assert found.fitted is not None
    assert found.fitted.median_error < 0.02


def test_shares_stay_shares_where_devices_are_faster_than_their_sheet():
    own = samples()
    quick = own.model_copy(
        update={"collectives": tuple(c.like(ns=c.ns / 9) for c in own.collectives)}
    )
    found = fit_calibration(quick).curves[0]
    assert all(each.share.value <= 1 and each.share_between.value <= 1 for each in found.protocols)


def test_samples_of_other_devices_or_another_cluster_are_refused():
    with pytest.raises(InvalidInput, match="A100"):
        fit_calibration(samples(), preset("a100-2x8"))
    with pytest.raises(InvalidInput, match="cluster of the topology"):
        fit_calibration(samples(), preset("h100-1x8"))
    nothing = samples().model_copy(update={"kernels": (), "collectives": ()})
    with pytest.raises(InvalidInput, match="no samples"):
        fit_calibration(nothing)
