"""Windows over the spatial dims of [n, c, ...], as convolutions and pools read them.

Output place i of a dim reads the input places i*stride + j*dilation - before, for every place j of
the window. Places outside of the input read the fill value. The padding behind follows from the
number of output places, so any input fits any output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, Shape

_LEAD = (slice(None), slice(None))  # batch and channels


@dataclass(frozen=True, slots=True)
class Windows:
    """Sizes of input, output and window by spatial dim, and the motion of the window."""

    size: Shape
    places: Shape
    window: Shape
    stride: Shape
    dilation: Shape
    before: Shape

    @property
    def _extent(self) -> Shape:
        """The size of the padded input."""
        return tuple(
            max((places - 1) * stride + (window - 1) * dilation + 1, before + size)
            for size, places, window, stride, dilation, before in zip(
                self.size,
                self.places,
                self.window,
                self.stride,
                self.dilation,
                self.before,
                strict=True,
            )
        )

    @property
    def _inside(self) -> tuple[slice, ...]:
        """The place of the input in the padded input."""
        return (
            *_LEAD,
            *(slice(b, b + size) for size, b in zip(self.size, self.before, strict=True)),
        )

    def _steps(self) -> Iterator[tuple[int, tuple[slice, ...]]]:
        """For every place of the window, its number and the slice that the outputs read."""
        offsets = product(*(range(window) for window in self.window))
        for number, offset in enumerate(offsets):
            moves = zip(offset, self.dilation, self.places, self.stride, strict=True)
            reads = (
                slice(j * d, j * d + (count - 1) * step + 1, step) for j, d, count, step in moves
            )
            yield number, (*_LEAD, *reads)

    def read(self, x: Array, fill: float = 0.0) -> Array:
        """[n, c, ...] -> [window places, n, c, output places ...]."""
        padded = np.full((*x.shape[:2], *self._extent), fill)
        padded[self._inside] = x
        columns = np.empty((prod(self.window), *x.shape[:2], *self.places))
        for number, place in self._steps():
            columns[number] = padded[place]
        return columns

    def add(self, read: Array) -> Array:
        """The transpose of `read`: every input place is the sum over its reads."""
        padded = np.zeros((*read.shape[1:3], *self._extent))
        for number, place in self._steps():
            padded[place] += read[number]
        return padded[self._inside]
