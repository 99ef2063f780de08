"""Op time by roofline: the slower of arithmetic and memory traffic, plus the launch.

    a = flops * stretch / (peak * e_class)
    b = bytes_moved / (memory_bandwidth * e_memory)
    t = max(max(a, b) + u min(a, b), steps * STEP_NS) + launch

peak is the device's dense rate for the dtype in FLOP/s. e_class and e_memory are the calibration's
shares of peak for the op's class and for memory traffic. stretch is the slowdown of small shapes, u
the share of the shorter time that does not overlap (`meshwright_costmodel.curves`); they are 1 and
0 for a calibration without curves. A view costs nothing. steps is the number of positions that a
recurrent layer computes one after the other, 1 in other ops.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Calibration, Device, OpClass
from meshwright_costmodel.curves import rates_of

NS_PER_S = 1e9
# chosen: the product of a step and the kernel of its gates, one after the other; in a CUDA graph a
# kernel of 2.9 µs took 3.4 (`launch_overhead.py`)
STEP_NS = 6_800


@overload
def op_ns(
    op_class: OpClass,
    flops: float,
    *,
    bytes_moved: float,
    dtype: str,
    device: Device,
    calibration: Calibration,
    steps: int = 1,
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
    steps: int = 1,
) -> NDArray[np.float64]: ...
def op_ns(
    op_class: OpClass,
    flops: float | NDArray[Any],
    *,
    bytes_moved: float | NDArray[Any],
    dtype: str,
    device: Device,
    calibration: Calibration,
    steps: int = 1,
) -> float | NDArray[np.float64]:
    """Time of one op on one device in ns, or elementwise for arrays of flops and bytes_moved.

    flops: FLOP, multiplied by the stretch of the shape where that is known. steps: positions that
    the op computes one after the other.
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
    busy_ns = busy_s * NS_PER_S
    if steps > 1:
        busy_ns = np.maximum(busy_ns, steps * STEP_NS)
    total_ns = busy_ns + calibration.launch_ns
    return total_ns if isinstance(total_ns, np.ndarray) else float(total_ns)
