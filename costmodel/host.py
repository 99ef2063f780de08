"""What hosts take: memory traffic of the work done there, and what crosses the link to the device.

    t_memory = bytes / (host memory bandwidth * e_host)
    t_link   = bytes / (link bandwidth * link efficiency) + latency

Bandwidths are one device's share. Adam is far below a processor's arithmetic (about ten operations
for 28 bytes), so that memory is all that counts.
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
    """A host as its devices find it."""

    memory_ns_per_byte: float
    link_ns_per_byte: float
    latency_ns: float

    @classmethod
    def of(cls, host: Host, calibration: Calibration) -> HostRates:
        memory = host.memory_bytes_per_s * calibration.efficiency.host_memory
        link = host.link.device_bytes_per_s * calibration.link_efficiency
        return cls(NS_PER_S / memory, NS_PER_S / link, host.link.latency_ns)

    def memory_ns(self, moved_bytes: FloatArray) -> FloatArray:
        """Of work that reads and writes so many bytes."""
        return moved_bytes * self.memory_ns_per_byte

    def link_ns(self, sent_bytes: FloatArray, bucket_bytes: int) -> FloatArray:
        """Of sending so much one way, in buckets that share their latency."""
        share = np.minimum(1.0, sent_bytes / bucket_bytes)
        return sent_bytes * self.link_ns_per_byte + share * self.latency_ns
