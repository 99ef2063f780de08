"""Host time: memory traffic of work on the host, and transfers over the link to the device.

    t_memory = bytes / (host memory bandwidth * e_host)
    t_link   = bytes / (link bandwidth * link efficiency) + latency

Bandwidths are the share of one device. Arithmetic is neglected, because Adam needs only about ten
operations per 28 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Host

NS_PER_S = 1e9
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates of a host for one of its devices."""

    memory_ns_per_byte: float
    link_ns_per_byte: float
    latency_ns: float

    @classmethod
    def of(cls, host: Host, calibration: Calibration) -> HostRates:
        memory = host.memory_bytes_per_s * calibration.efficiency.host_memory
        link = host.link.device_bytes_per_s * calibration.link_efficiency
        return cls(NS_PER_S / memory, NS_PER_S / link, host.link.latency_ns)

    def memory_ns(self, moved_bytes: FloatArray) -> FloatArray:
        """Time in ns of work that reads and writes `moved_bytes`, elementwise."""
        return moved_bytes * self.memory_ns_per_byte

    def link_ns(self, sent_bytes: FloatArray, bucket_bytes: int) -> FloatArray:
        """Time in ns of sending `sent_bytes` in one direction, in buckets with shared latency."""
        share = np.minimum(1.0, sent_bytes / bucket_bytes)
        return sent_bytes * self.link_ns_per_byte + share * self.latency_ns
