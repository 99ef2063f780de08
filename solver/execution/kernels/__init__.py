"""What every operator kind computes in numpy, forward and backward, on whole arrays.

The same kernel runs an op on one device, its shards standing in arrays that are zero elsewhere, and
the unsharded reference. Values do not matter, layouts do: sizes come from the arrays, never from
attrs, and what a value decides elsewhere (the experts of a token) is decided by position.
"""

from __future__ import annotations

from collections.abc import Mapping

from solver.execution.kernels.arithmetic import ARITHMETIC
from solver.execution.kernels.attention import ATTENTION
from solver.execution.kernels.binary import BINARY
from solver.execution.kernels.cache import CACHE
from solver.execution.kernels.call import Array, Call, NotExecutable
from solver.execution.kernels.channel import CHANNEL
from solver.execution.kernels.convolution import CONVOLUTIONS
from solver.execution.kernels.creation import CREATION
from solver.execution.kernels.cumulative import CUMULATIVE
from solver.execution.kernels.indexing import INDEXING
from solver.execution.kernels.kernel import Kernel
from solver.execution.kernels.linear_algebra import LINEAR_ALGEBRA
from solver.execution.kernels.loss import LOSSES, ignored_label
from solver.execution.kernels.mixture import MIXTURE
from solver.execution.kernels.movement import MOVEMENT
from solver.execution.kernels.normalisation import NORMALISATIONS
from solver.execution.kernels.product import PRODUCTS
from solver.execution.kernels.quantisation import QUANTISATION
from solver.execution.kernels.reduction import REDUCTIONS
from solver.execution.kernels.resampling import RESAMPLING
from solver.execution.kernels.routing import ROUTING
from solver.execution.kernels.scatter import SCATTER
from solver.execution.kernels.segment import SEGMENTS
from solver.execution.kernels.softmax import SOFTMAX
from solver.execution.kernels.special import SPECIAL
from solver.execution.kernels.spectral import SPECTRAL
from solver.execution.kernels.unary import UNARY
from solver.execution.kernels.vision import VISION

KERNELS: Mapping[str, Kernel] = {
    **UNARY,
    **BINARY,
    **REDUCTIONS,
    **PRODUCTS,
    **ATTENTION,
    **SOFTMAX,
    **NORMALISATIONS,
    **MIXTURE,
    **LOSSES,
    **MOVEMENT,
    **CREATION,
    **INDEXING,
    **CONVOLUTIONS,
    **RESAMPLING,
    **SPECIAL,
    **ARITHMETIC,
    **CHANNEL,
    **CUMULATIVE,
    **SCATTER,
    **SEGMENTS,
    **SPECTRAL,
    **LINEAR_ALGEBRA,
    **QUANTISATION,
    **VISION,
    **CACHE,
    **ROUTING,
}

__all__ = ["KERNELS", "Array", "Call", "Kernel", "NotExecutable", "ignored_label"]
