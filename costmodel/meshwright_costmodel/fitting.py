"""Fit of a calibration to samples: curves whose predicted times match the measured times.

The fit varies all constants of the device's curves and the launch time, by
`meshwright_costmodel.least_squares`. Predictions are those of `op_ns` and `collective_cost`. The
noise of a sample is its relative interquartile range, at least NOISE. The prior is the published
calibration of the device or its nearest relative, of the width PRIOR_WIDTH; constants without
samples keep it. Each measured kind of collective has factors with the prior 1 and the width
KIND_WIDTH. An all_to_all has none, because a search relies on it being cheaper than the all-gather
of the same data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Device, InvalidInput, Topology
from meshwright.schema.calibration import Fitted
from meshwright.schema.curves import CollectiveCurve, Constant, DeviceCurves
from meshwright.schema.samples import Samples
from meshwright_costmodel.calibrations import published_calibration
from meshwright_costmodel.collectives import Interconnect
from meshwright_costmodel.curve_constants import Column, CurveConstants
from meshwright_costmodel.curves import rates_of
from meshwright_costmodel.least_squares import fit_logs
from meshwright_costmodel.numeric_guard import computable
from meshwright_costmodel.predicted_samples import collective_samples_ns, kernel_sample_ns

NOISE = 0.15  # chosen: curves have errors for single shapes beyond the measurement noise
PRIOR_WIDTH = 1.0  # chosen: a relative's constants are correct within a factor of e
KIND_WIDTH = 0.5  # chosen: gloo's all-reduce takes 3 times a byte what its broadcast does
LAUNCH = "launch"
KINDS = "collectives."
SMALLEST, LARGEST = 1e-6, 1.0  # of a share
# chosen: beyond all machines, and without overflow on the way of a fit
FARTHEST_NS, SLOWEST = 1e30, 1e-30
STEP = 1e-2  # chosen: of a logarithm, for slopes, because a launch time is whole ns
AS_SENT = Constant(value=1.0, spread=KIND_WIDTH, source="chosen: what its protocols say")
SHARES = ("share", "share_between", "memory", "in_switch", "unhidden")


@dataclass(frozen=True, slots=True)
class _Model:
    """Calibrations as vectors: logarithms of their constants, with the launch time in ns last."""

    base: Calibration
    constants: CurveConstants

    @classmethod
    def of(cls, device: Device, kinds: Iterable[str]) -> _Model:
        """The model of a device, with factors for these kinds of collectives."""
        base = published_calibration()
        rates = rates_of(base, device)
        assert rates.curves is not None
        product = rates.curves.product
        fill = product.fill.like(value=product.fill.value * rates.size)
        curves = rates.curves.like(
            device=device.name,
            flops_per_s=device.peak_flops_per_s("bfloat16"),
            relative=None,
            product=product.like(fill=fill),
            collectives=tuple(
                CollectiveCurve(name=kind, start=AS_SENT, slope=AS_SENT) for kind in kinds
            ),
        )
        return cls(base, CurveConstants.of(curves))

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.constants.names, LAUNCH)

    @property
    def prior(self) -> Column:
        return np.append(self.constants.logs, np.log(max(self.base.launch_ns, 1)))

    @property
    def widths(self) -> Column:
        kinds = [name.startswith(KINDS) for name in self.names]
        return np.where(kinds, KIND_WIDTH, PRIOR_WIDTH)

    @property
    def bounds(self) -> tuple[Column, Column]:
        is_share = np.array([name.rpartition(".")[2] in SHARES for name in self.names])
        low = np.where(is_share, SMALLEST, 1e-9)
        return np.log(low), np.log(np.where(is_share, LARGEST, 1e15))

    def calibration(self, logs: Column) -> Calibration:
        return self._with(self.constants.with_values(logs[:-1]), float(np.exp(logs[-1])))

    def fitted_calibration(self, logs: Column, spreads: Column, source: str) -> Calibration:
        """The fitted calibration, each constant with its spread and source."""
        curves = self.constants.fit_result(logs[:-1], spreads[:-1], self.widths[:-1], source)
        return self._with(curves, float(np.exp(logs[-1])))

    def _with(self, curves: DeviceCurves, launch_ns: float) -> Calibration:
        """A calibration with these curves; its plain shares are those of large shapes."""
        large = {
            "matmul": curves.product.share.value,
            "attention": curves.attention.share.value,
            "memory": curves.memory.value,
        }
        return self.base.model_copy(
            update={
                "efficiency": self.base.efficiency.model_copy(update=large),
                "link_efficiency": curves.protocols[-1].share.value,
                "launch_ns": round(launch_ns),
                "curves": (curves,),
            }
        )


def fit_calibration(samples: Samples, topology: Topology | None = None) -> Calibration:
    """Fit a calibration to samples of a topology, by default that of the samples.

    Raises InvalidInput where the samples do not belong to the topology.
    """
    cluster = topology or samples.topology
    _check(samples, cluster)
    if not samples.kernels and not samples.collectives:
        raise InvalidInput("there are no samples to fit a calibration to")
    kinds = dict.fromkeys(sample.kind for sample in samples.collectives)
    model = _Model.of(cluster.device, [kind for kind in kinds if kind != "all_to_all"])
    measured, noise = _log_times(samples)
    _check_computable(samples, cluster, model.calibration(model.prior))

    def predicted(logs: Column) -> Column:
        return np.log(_predicted_ns(samples, cluster, model.calibration(logs)))

    logs, spreads = fit_logs(
        predicted, measured, noise, model.prior, model.widths, bounds=model.bounds, step=STEP
    )
    source = f"fitted: {len(measured)} samples of {samples.measured_at}"
    return _with_metadata(
        model.fitted_calibration(logs, spreads, source), samples, cluster, measured, source
    )


def _log_times(samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of the measured times, and their standard deviations."""
    pairs = [(sample.ns, sample.spread_ns) for sample in samples.kernels]
    pairs += [(sample.ns, sample.spread_ns) for sample in samples.collectives]
    ns, spread_ns = np.array(pairs).T
    return np.log(ns), np.maximum(NOISE, spread_ns / ns)


def _predicted_ns(
    samples: Samples, topology: Topology, calibration: Calibration
) -> NDArray[np.float64]:
    kernels = [kernel_sample_ns(sample, topology.device, calibration) for sample in samples.kernels]
    links = Interconnect.of(topology, calibration)
    collectives = collective_samples_ns(samples.collectives, links)
    times: NDArray[np.float64] = np.maximum(np.array([*kernels, *collectives]), 1.0)
    return times


def _check_computable(samples: Samples, topology: Topology, calibration: Calibration) -> None:
    device = topology.device
    slowest = min(
        device.memory_bytes_per_s,
        *device.flops_per_s.values(),
        *(level.link.device_bytes_per_s for level in topology.levels),
    )
    with computable("these samples"):
        longest = float(_predicted_ns(samples, topology, calibration).max())
        if longest > FARTHEST_NS or slowest < SLOWEST:
            raise OverflowError


def _check(samples: Samples, topology: Topology) -> None:
    measured = samples.topology
    if measured.device.name != topology.device.name:
        raise InvalidInput(
            f"the samples are of {measured.device.name!r}, the topology has "
            f"{topology.device.name!r}. Measure on the devices of the topology"
        )
    sizes = [level.size for level in topology.levels]
    for sample in samples.collectives:
        if len(sample.extents) != len(sizes) or any(
            extent > size for extent, size in zip(sample.extents, sizes, strict=True)
        ):
            raise InvalidInput(
                f"the samples have groups of {'x'.join(map(str, sample.extents))}, the topology's "
                f"levels are {'x'.join(map(str, sizes))}. Measure on the cluster of the topology"
            )


def _with_metadata(
    calibration: Calibration, samples: Samples, topology: Topology, measured: Column, source: str
) -> Calibration:
    predicted = np.log(_predicted_ns(samples, topology, calibration))
    errors = np.abs(np.expm1(predicted - measured))
    spreads = {
        name: constant.spread
        for name, constant in calibration.curves[0].constants()
        if constant.source == source
    }
    return calibration.model_copy(
        update={
            "name": f"{topology.device.name}, {samples.backend}",
            "source": (
                f"{len(measured)} samples of {samples.measured_at} on {samples.topology.name} over "
                f"{samples.backend}: median error {100 * float(np.median(errors)):.0f} %. "
                "Constants without a sample are those of the nearest device that was measured; "
                "convolution, hosts and exposed shares the default's."
            ),
            "fitted": Fitted(
                samples=samples.id,
                spreads=spreads,
                median_error=round(float(np.median(errors)), 4),
            ),
        }
    )
