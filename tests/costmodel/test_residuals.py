"""Predicted over measured, by kind."""

from __future__ import annotations

import pytest

from meshwright.schema.samples import KernelSample, Samples
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.fitting import fit_calibration
from meshwright_costmodel.residuals import residuals_of
from tests.costmodel.test_fitting import samples


def memory(elements: int, ns: float) -> KernelSample:
    return KernelSample(
        kind="memory", dtype="float32", shape=(elements,), flops=0.0,
        bytes_moved=8.0 * elements, ns=ns, spread_ns=0.0, runs=9,
    )  # fmt: skip


def of_memory(times: list[float]) -> Samples:
    """On a device of 1 TB/s kept by a half, with no launch: 10^6 elements take 16 us."""
    own = samples()
    device = own.topology.device.model_copy(update={"memory_bytes_per_s": 1e12})
    return own.model_copy(
        update={
            "topology": own.topology.model_copy(update={"device": device}),
            "kernels": tuple(memory(10**6, ns) for ns in times),
            "collectives": (),
        }
    )


def test_the_ratio_is_predicted_over_measured_worked_by_hand() -> None:
    flat = default_calibration()
    half = flat.efficiency.model_copy(update={"memory": 0.5})
    changes = {"efficiency": half, "launch_ns": 0}
    if "curves" in type(flat).model_fields:
        changes["curves"] = ()
    calibration = flat.model_copy(update=changes)
    # predicted 16 us each; measured 8, 16, 32, 64, 160: ratios 2, 1, 1/2, 1/4, 1/10
    found = residuals_of(calibration, of_memory([8e3, 16e3, 32e3, 64e3, 160e3]))
    (own,) = found.residuals
    assert (own.kind, own.samples) == ("memory", 5)
    assert own.median == pytest.approx(0.5)
    assert (own.low, own.high) == (pytest.approx(0.25), pytest.approx(1.0))
    assert own.worst == pytest.approx(0.1)
    assert own.worst_of == "float32 1000000"
    assert found.calibration == calibration.id
    first = found.sampled[0]
    # 8 MB in 8 us are 1 TB/s
    assert (first.size, first.measured_ns, first.series) == (8e6, 8e3, "float32")
    assert (first.predicted_ns, first.ratio) == (pytest.approx(16e3), pytest.approx(2))
    assert first.measured_per_s == pytest.approx(1e12)
    assert first.predicted_per_s == pytest.approx(5e11)


def test_a_fit_to_exact_samples_leaves_little() -> None:
    own = samples()
    calibration = fit_calibration(own)
    found = residuals_of(calibration, own)
    assert found.samples == own.id
    assert {residual.kind for residual in found.residuals} == {
        *(kernel.kind for kernel in own.kernels),
        *(among.kind for among in own.collectives),
    }
    assert calibration.fitted is not None
    counts = sum(residual.samples for residual in found.residuals)
    assert counts == len(found.sampled) == len(own.kernels) + len(own.collectives)
    for residual in found.residuals:
        assert residual.low <= residual.median <= residual.high
        assert residual.median == pytest.approx(1.0, abs=0.1), residual
