"""Residuals of a calibration, kind by kind: predicted over measured, its quartiles, the worst."""

from __future__ import annotations

import math
import statistics

from costmodel.collectives import Interconnect
from costmodel.sample_times import collective_sample_ns, kernel_sample_ns
from meshwright.schema import Calibration
from meshwright.schema.residuals import Residual, Residuals
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples


def residuals_of(calibration: Calibration, samples: Samples) -> Residuals:
    """How well a calibration tells samples, whether or not it was fitted to them."""
    ratios: dict[str, list[tuple[float, str]]] = {}
    for kernel in samples.kernels:
        predicted = kernel_sample_ns(kernel, samples.topology.device, calibration)
        ratios.setdefault(kernel.kind, []).append((predicted / kernel.ns, _name(kernel)))
    links = Interconnect.of(samples.topology, calibration)
    for among in samples.collectives:
        predicted = max(1.0, collective_sample_ns(among, links))
        ratios.setdefault(among.kind, []).append((predicted / among.ns, _name(among)))
    found = tuple(_residual(kind, own) for kind, own in ratios.items())
    return Residuals(calibration=calibration.id, samples=samples.id, residuals=found)


def _residual(kind: str, pairs: list[tuple[float, str]]) -> Residual:
    ratios = [ratio for ratio, _ in pairs]
    low, high = ratios[0], ratios[0]
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    worst, of = max(pairs, key=lambda own: abs(math.log(own[0])))
    return Residual(
        kind=kind,
        samples=len(ratios),
        median=statistics.median(ratios),
        low=low,
        high=high,
        worst=worst,
        worst_of=of,
    )


def _name(own: KernelSample | CollectiveSample) -> str:
    if isinstance(own, KernelSample):
        return f"{own.dtype} {'x'.join(map(str, own.shape))}"
    return f"{own.payload_bytes} B in groups of {'x'.join(map(str, own.extents))}"
