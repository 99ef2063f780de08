"""Arrays of numbers, as routes and schedules hold them; numpy is needed for nothing else here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
