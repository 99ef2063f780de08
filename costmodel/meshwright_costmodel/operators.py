"""Op time by roofline: the slower of arithmetic and memory traffic, plus the launch.

    a = flops * stretch / (peak * e_class)
    b = bytes_moved / (memory_bandwidth * e_memory)
    t = max(a, b) + u min(a, b) + launch

peak is the device's dense rate for the dtype in FLOP/s. e_class and e_memory are the calibration's
shares of peak for the op's class and for memory traffic. stretch is the slowdown of small shapes, u
the share of the shorter time that does not overlap (`meshwright_costmodel.curves`); they are 1 and
0 for a calibration without curves. A view costs nothing.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Device, OpClass
from meshwright_costmodel.curves import rates_of

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
    """Time of one op on one device in ns, or elementwise for arrays of flops and bytes_moved.

    flops: FLOP, multiplied by the stretch of the shape where that is known.
    """
    if op_class == "view":
        return flops * 0.0
    rates = rates_of(calibration, device)
    peak_flops_per_s = device.peak_flops_per_s(dtype) * rates.peak_share(op_class, dtype)
    arithmetic_s = flops / peak_flops_per_s
    memory_s = bytes_moved / (device.memory_bytes_per_s * rates.memory)
    busy_s = np.maximum(arithmetic_s, memory_s)
    unhidden = rates.unhidden(op_class)
    if unhidden:
        busy_s = busy_s + unhidden * np.minimum(arithmetic_s, memory_s)
    total_ns = busy_s * NS_PER_S + calibration.launch_ns
    return total_ns if isinstance(total_ns, np.ndarray) else float(total_ns)
