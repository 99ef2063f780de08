"""Residuals of a calibration, kind by kind: predicted over measured, its quartiles, the worst."""

from __future__ import annotations

import math
import statistics

from costmodel.collectives import Interconnect
from costmodel.computable import computable
from costmodel.sample_times import collective_sample_ns, kernel_sample_ns
from meshwright.schema import Calibration
from meshwright.schema.residuals import Residual, Residuals, Sampled
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples

NS_PER_S = 1e9


def residuals_of(calibration: Calibration, samples: Samples) -> Residuals:
    """How well a calibration tells samples, whether or not it was fitted to them.

    InvalidInput of documents whose numbers nothing can be computed of.
    """
    with computable("these samples by this calibration"):
        links = Interconnect.of(samples.topology, calibration)
        device = samples.topology.device
        found = [
            *(_sampled(own, kernel_sample_ns(own, device, calibration)) for own in samples.kernels),
            *(_sampled(own, collective_sample_ns(own, links)) for own in samples.collectives),
        ]
        ratios: dict[str, list[tuple[float, str]]] = {}
        for one in found:
            ratios.setdefault(one.kind, []).append((one.ratio, one.name))
        return Residuals(
            calibration=calibration.id,
            samples=samples.id,
            topology=samples.topology.id,
            residuals=tuple(_residual(kind, own) for kind, own in ratios.items()),
            sampled=tuple(found),
        )


def _sampled(own: KernelSample | CollectiveSample, predicted_ns: float) -> Sampled:
    predicted_ns = max(1.0, predicted_ns)
    if isinstance(own, CollectiveSample):
        size, series = float(own.payload_bytes), "x".join(map(str, own.extents))
    elif own.kind == "launch":
        size, series = float(own.shape[0]), own.dtype
    else:
        size, series = own.bytes_moved if own.kind == "memory" else own.flops, own.dtype
    return Sampled(
        kind=own.kind,
        series=series,
        name=_name(own),
        size=size,
        measured_ns=own.ns,
        spread_ns=own.spread_ns,
        predicted_ns=predicted_ns,
        measured_per_s=size / own.ns * NS_PER_S,
        predicted_per_s=size / predicted_ns * NS_PER_S,
        ratio=predicted_ns / own.ns,
    )


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
