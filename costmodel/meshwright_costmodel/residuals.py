"""Residuals of a calibration by kind: median, quartiles and worst of predicted over measured."""

from __future__ import annotations

import math
import statistics

from meshwright.schema import Calibration
from meshwright.schema.residuals import Residual, Residuals, Sampled
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples
from meshwright_costmodel.collectives import Interconnect
from meshwright_costmodel.numeric_guard import computable
from meshwright_costmodel.predicted_samples import collective_samples_ns, kernel_sample_ns

NS_PER_S = 1e9


def residuals_of(calibration: Calibration, samples: Samples) -> Residuals:
    """The residuals of a calibration for samples, fitted or not.

    Raises InvalidInput for documents whose numbers overflow.
    """
    with computable("these samples by this calibration"):
        links = Interconnect.of(samples.topology, calibration)
        device = samples.topology.device
        results = [
            *(
                _compare(sample, kernel_sample_ns(sample, device, calibration))
                for sample in samples.kernels
            ),
            *map(_compare, samples.collectives, collective_samples_ns(samples.collectives, links)),
        ]
        ratios: dict[str, list[tuple[float, str]]] = {}
        for result in results:
            ratios.setdefault(result.kind, []).append((result.ratio, result.name))
        return Residuals(
            calibration=calibration.id,
            samples=samples.id,
            topology=samples.topology.id,
            residuals=tuple(_residual(kind, pairs) for kind, pairs in ratios.items()),
            sampled=tuple(results),
        )


def _compare(sample: KernelSample | CollectiveSample, predicted_ns: float) -> Sampled:
    predicted_ns = max(1.0, predicted_ns)
    if isinstance(sample, CollectiveSample):
        size, series = float(sample.payload_bytes), "x".join(map(str, sample.extents))
    elif sample.kind == "launch":
        size, series = float(sample.shape[0]), sample.dtype
    else:
        size, series = sample.bytes_moved if sample.kind == "memory" else sample.flops, sample.dtype
    return Sampled(
        kind=sample.kind,
        series=series,
        name=_name(sample),
        size=size,
        measured_ns=sample.ns,
        spread_ns=sample.spread_ns,
        predicted_ns=predicted_ns,
        measured_per_s=size / sample.ns * NS_PER_S,
        predicted_per_s=size / predicted_ns * NS_PER_S,
        ratio=predicted_ns / sample.ns,
    )


def _residual(kind: str, pairs: list[tuple[float, str]]) -> Residual:
    ratios = [ratio for ratio, _ in pairs]
    low, high = ratios[0], ratios[0]
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    worst, worst_name = max(pairs, key=lambda pair: abs(math.log(pair[0])))
    return Residual(
        kind=kind,
        samples=len(ratios),
        median=statistics.median(ratios),
        low=low,
        high=high,
        worst=worst,
        worst_of=worst_name,
    )


def _name(sample: KernelSample | CollectiveSample) -> str:
    if isinstance(sample, KernelSample):
        return f"{sample.dtype} {'x'.join(map(str, sample.shape))}"
    return f"{sample.payload_bytes} B in groups of {'x'.join(map(str, sample.extents))}"
