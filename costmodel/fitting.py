"""A calibration from samples: curves that make the cost model's times the measured ones.

Over all constants of the device's curves and the launch time, by `costmodel.least_squares`. A
prediction is what `op_ns` or `collective_cost` says. The noise of a sample is its quartiles'
distance, or NOISE where that is less. The prior is the curves of the published calibration, the
device's own or its nearest relative's, within PRIOR_WIDTH: what no sample is about keeps them. Each
kind of collective that was measured has factors of its own, held to 1 within KIND_WIDTH; but an
all_to_all, which a search takes to be cheaper than the gather of what it exchanges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.calibrations import published_calibration
from costmodel.collectives import Interconnect
from costmodel.computable import computable
from costmodel.curve_constants import Column, CurveConstants
from costmodel.curves import rates_of
from costmodel.least_squares import fitted_logs
from costmodel.sample_times import collective_sample_ns, kernel_sample_ns
from meshwright.schema import Calibration, Device, InvalidInput, Topology
from meshwright.schema.calibration import Fitted
from meshwright.schema.curves import CollectiveCurve, Constant, DeviceCurves
from meshwright.schema.samples import Samples

NOISE = 0.15  # chosen: what curves are off for one shape of many is no noise of measuring
PRIOR_WIDTH = 1.0  # chosen: a relative's constants are right within a factor of e
KIND_WIDTH = 0.5  # chosen: gloo's all-reduce takes 3 times a byte what its broadcast does
LAUNCH = "launch"
KINDS = "collectives."
SMALLEST, LARGEST = 1e-6, 1.0  # of a share
# chosen: no machine is beyond, and what a fit tries on its way from there can be computed
FARTHEST_NS, SLOWEST = 1e30, 1e-30
STEP = 1e-2  # of a logarithm, for slopes; a calibration's launch is whole ns
AS_SENT = Constant(value=1.0, spread=KIND_WIDTH, source="chosen: what its protocols say")
SHARES = ("share", "share_between", "memory", "in_switch", "unhidden")


@dataclass(frozen=True, slots=True)
class _Model:
    """Calibrations by the logarithms of their constants, the launch in ns last."""

    base: Calibration
    constants: CurveConstants

    @classmethod
    def of(cls, device: Device, kinds: Iterable[str]) -> _Model:
        """kinds: of collectives that have samples."""
        base = published_calibration()
        rates = rates_of(base, device)
        assert rates.curves is not None
        product = rates.curves.product
        fill = product.fill.like(value=product.fill.value * rates.size)
        own = rates.curves.like(
            device=device.name,
            flops_per_s=device.peak_flops_per_s("bfloat16"),
            relative=None,
            product=product.like(fill=fill),
            collectives=tuple(
                CollectiveCurve(name=kind, start=AS_SENT, slope=AS_SENT) for kind in kinds
            ),
        )
        return cls(base, CurveConstants.of(own))

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

    def told(self, logs: Column, spreads: Column, source: str) -> Calibration:
        """The fitted calibration, each constant with its spread and where it is from."""
        curves = self.constants.fitted(logs[:-1], spreads[:-1], self.widths[:-1], source)
        return self._with(curves, float(np.exp(logs[-1])))

    def _with(self, curves: DeviceCurves, launch_ns: float) -> Calibration:
        """Shares outside curves are those of large shapes, for what asks for no shape."""
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
    """What samples say of a topology, theirs by default. InvalidInput where they do not fit it."""
    cluster = topology or samples.topology
    _check(samples, cluster)
    if not samples.kernels and not samples.collectives:
        raise InvalidInput("there are no samples to fit a calibration to")
    kinds = dict.fromkeys(own.kind for own in samples.collectives)
    model = _Model.of(cluster.device, [kind for kind in kinds if kind != "all_to_all"])
    measured, noise = _measured(samples)
    _check_computable(samples, cluster, model.calibration(model.prior))

    def predicted(logs: Column) -> Column:
        return np.log(_predicted(samples, cluster, model.calibration(logs)))

    logs, spreads = fitted_logs(
        predicted, measured, noise, model.prior, model.widths, bounds=model.bounds, step=STEP
    )
    source = f"fitted: {len(measured)} samples of {samples.measured_at}"
    return _told(model.told(logs, spreads, source), samples, cluster, measured, source)


def _measured(samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of the times, and how sure each is."""
    pairs = [(own.ns, own.spread_ns) for own in samples.kernels]
    pairs += [(own.ns, own.spread_ns) for own in samples.collectives]
    ns, spread_ns = np.array(pairs).T
    return np.log(ns), np.maximum(NOISE, spread_ns / ns)


def _predicted(
    samples: Samples, topology: Topology, calibration: Calibration
) -> NDArray[np.float64]:
    kernels = [kernel_sample_ns(own, topology.device, calibration) for own in samples.kernels]
    links = Interconnect.of(topology, calibration)
    among = [collective_sample_ns(own, links) for own in samples.collectives]
    times: NDArray[np.float64] = np.maximum(np.array([*kernels, *among]), 1.0)
    return times


def _check_computable(samples: Samples, topology: Topology, calibration: Calibration) -> None:
    device = topology.device
    slowest = min(
        device.memory_bytes_per_s,
        *device.flops_per_s.values(),
        *(level.link.device_bytes_per_s for level in topology.levels),
    )
    with computable("these samples"):
        longest = float(_predicted(samples, topology, calibration).max())
        if longest > FARTHEST_NS or slowest < SLOWEST:
            raise OverflowError


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
    own: Calibration, samples: Samples, topology: Topology, measured: Column, source: str
) -> Calibration:
    predicted = np.log(_predicted(samples, topology, own))
    errors = np.abs(np.expm1(predicted - measured))
    fitted = {
        name: constant.spread
        for name, constant in own.curves[0].constants()
        if constant.source == source
    }
    return own.model_copy(
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
                spreads=fitted,
                median_error=round(float(np.median(errors)), 4),
            ),
        }
    )
