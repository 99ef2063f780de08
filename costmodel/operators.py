"""Op time by roofline: the slower of arithmetic and memory traffic, plus the launch.

    t = max(flops / (peak * e_class), bytes_moved / (memory_bandwidth * e_memory)) + launch

peak is the device's dense rate for the dtype in FLOP/s; e_class and e_memory are the calibration's
shares of peak for the op's class and for memory traffic. A view moves nothing and costs nothing.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Device, OpClass

NS_PER_S = 1e9


@overload
def op_ns(
    op_class: OpClass,
    flops: float,
    *,
    bytes_moved: float,
    dtype: str,
    device: Device,
    calibration: Calibration,
) -> float: ...
@overload
def op_ns(
    op_class: OpClass,
    flops: NDArray[Any],
    *,
    bytes_moved: NDArray[Any],
    dtype: str,
    device: Device,
    calibration: Calibration,
) -> NDArray[np.float64]: ...
def op_ns(
    op_class: OpClass,
    flops: float | NDArray[Any],
    *,
    bytes_moved: float | NDArray[Any],
    dtype: str,
    device: Device,
    calibration: Calibration,
) -> float | NDArray[np.float64]:
    """Time of one op on one device, or elementwise for arrays of flops and bytes_moved."""
    if op_class == "view":
        return flops * 0.0
    peak_flops_per_s = device.peak_flops_per_s(dtype) * getattr(calibration.efficiency, op_class)
    memory_bytes_per_s = device.memory_bytes_per_s * calibration.efficiency.memory
    busy_s = np.maximum(flops / peak_flops_per_s, bytes_moved / memory_bytes_per_s)
    total_ns = busy_s * NS_PER_S + calibration.launch_ns
    return total_ns if isinstance(total_ns, np.ndarray) else float(total_ns)
