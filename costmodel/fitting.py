"""A calibration from samples: shares of peak that make the cost model's times the measured ones.

Over the shares of matmul, attention, memory and links and the launch time, by
`costmodel.least_squares`. A prediction is what `op_ns` or `collective_ns` says. The noise of a
sample is its quartiles' distance, or NOISE where that is less. The prior is the data sheet's
calibration, within PRIOR_WIDTH: what no sample is about keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.calibrations import default_calibration
from costmodel.collectives import Interconnect, collective_ns
from costmodel.least_squares import fitted_logs
from costmodel.operators import op_ns
from meshwright.schema import Calibration, InvalidInput, OpClass, Topology
from meshwright.schema.calibration import Fitted
from meshwright.schema.samples import CollectiveSample, KernelSample, Samples

# chosen: the model has one share for all shapes; what a share is off for one of them is no noise
NOISE = 0.3
PRIOR_WIDTH = 1.0  # chosen: the default calibration is right within a factor of e
NAMES = ("matmul", "attention", "memory", "link", "launch")
SMALLEST, LARGEST = 1e-6, 1.0  # of a share
STEP = 1e-2  # of a logarithm, for slopes; a calibration's launch is whole ns
_CLASSES: dict[str, OpClass] = {
    "matmul": "matmul", "attention": "attention", "memory": "memory", "launch": "memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Values:
    """logs: of the shares and of the launch in ns, in the order of NAMES."""

    logs: NDArray[np.float64]

    @classmethod
    def of(cls, own: Calibration) -> _Values:
        shares = own.efficiency
        values = (shares.matmul, shares.attention, shares.memory, own.link_efficiency)
        return cls(np.log([*values, max(own.launch_ns, 1)]))

    def calibration(self) -> Calibration:
        matmul, attention, memory, link, launch = (float(value) for value in np.exp(self.logs))
        default = default_calibration()
        shares = {"matmul": matmul, "attention": attention, "memory": memory}
        clipped = {name: min(LARGEST, value) for name, value in shares.items()}
        return default.model_copy(
            update={
                "efficiency": default.efficiency.model_copy(update=clipped),
                "link_efficiency": min(LARGEST, link),
                "launch_ns": round(launch),
            }
        )


def fit_calibration(samples: Samples, topology: Topology | None = None) -> Calibration:
    """What samples say of a topology, theirs by default. InvalidInput where they do not fit it."""
    cluster = topology or samples.topology
    _check(samples, cluster)
    if not samples.kernels and not samples.collectives:
        raise InvalidInput("there are no samples to fit a calibration to")
    prior = _Values.of(default_calibration())
    measured, noise = _measured(samples)

    def predicted(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(_predicted(samples, cluster, _Values(logs).calibration()))

    shares = np.arange(len(NAMES)) < len(NAMES) - 1
    bounds = np.log(np.where(shares, SMALLEST, 1.0)), np.log(np.where(shares, LARGEST, 1e9))
    logs, spreads = fitted_logs(
        predicted, measured, noise, prior.logs, PRIOR_WIDTH, bounds=bounds, step=STEP
    )
    own = _Values(logs).calibration()
    return _told(own, samples, cluster, spreads, measured)


def _measured(samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of the times, and how sure each is."""
    pairs = [(own.ns, own.spread_ns) for own in samples.kernels]
    pairs += [(own.ns, own.spread_ns) for own in samples.collectives]
    ns, spread_ns = np.array(pairs).T
    return np.log(ns), np.maximum(NOISE, spread_ns / ns)


def _predicted(
    samples: Samples, topology: Topology, calibration: Calibration
) -> NDArray[np.float64]:
    kernels = [_kernel_ns(own, topology, calibration) for own in samples.kernels]
    links = Interconnect.of(topology, calibration)
    among = [_collective_ns(own, links) for own in samples.collectives]
    times: NDArray[np.float64] = np.maximum(np.array([*kernels, *among]), 1.0)
    return times


def _kernel_ns(own: KernelSample, topology: Topology, calibration: Calibration) -> float:
    return op_ns(
        _CLASSES[own.kind], own.flops, bytes_moved=own.bytes_moved, dtype=own.dtype,
        device=topology.device, calibration=calibration,
    )  # fmt: skip


def _collective_ns(own: CollectiveSample, links: Interconnect) -> float:
    return collective_ns(
        own.kind, own.extents, payload_bytes=float(own.payload_bytes), interconnect=links
    )


def _check(samples: Samples, topology: Topology) -> None:
    found = samples.topology
    if found.device.name != topology.device.name:
        raise InvalidInput(
            f"the samples are of {found.device.name!r}, the topology has "
            f"{topology.device.name!r}: measure on the devices that the topology is of"
        )
    sizes = [level.size for level in topology.levels]
    for own in samples.collectives:
        if len(own.extents) != len(sizes) or any(
            extent > size for extent, size in zip(own.extents, sizes, strict=True)
        ):
            raise InvalidInput(
                f"the samples have groups of {'x'.join(map(str, own.extents))}, the topology's "
                f"levels are {'x'.join(map(str, sizes))}: they are of another cluster"
            )


def _told(
    own: Calibration,
    samples: Samples,
    topology: Topology,
    spreads: NDArray[np.float64],
    measured: NDArray[np.float64],
) -> Calibration:
    predicted = np.log(_predicted(samples, topology, own))
    errors = np.abs(np.expm1(predicted - measured))
    return own.model_copy(
        update={
            "name": f"{topology.device.name}, {samples.backend}",
            "source": (
                f"{len(measured)} samples of {samples.measured_at} on {samples.topology.name} over "
                f"{samples.backend}: median error {100 * float(np.median(errors)):.0f} %. "
                "Convolution, hosts and exposed shares are not measured: the default's."
            ),
            "fitted": Fitted(
                samples=samples.id,
                spreads=dict(zip(NAMES, (round(float(own), 4) for own in spreads), strict=True)),
                median_error=round(float(np.median(errors)), 4),
            ),
        }
    )
