"""Numpy kernels of the operator kinds, forward and backward, on whole arrays.

The same kernel runs the unsharded reference and an op on one device. On a device the shards stand
in arrays that are zero elsewhere. Values are random and only layouts matter. Sizes come from the
arrays, never from attrs. A choice that depends on values in a real run (the experts of a token)
depends on the position here.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshwright_solver.verification.execution.kernels.arithmetic import ARITHMETIC
from meshwright_solver.verification.execution.kernels.attention import ATTENTION
from meshwright_solver.verification.execution.kernels.binary import BINARY
from meshwright_solver.verification.execution.kernels.cache import CACHE
from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    NotExecutable,
    OpaqueSignature,
)
from meshwright_solver.verification.execution.kernels.channel import CHANNEL
from meshwright_solver.verification.execution.kernels.convolution import CONVOLUTIONS
from meshwright_solver.verification.execution.kernels.creation import CREATION
from meshwright_solver.verification.execution.kernels.cumulative import CUMULATIVE
from meshwright_solver.verification.execution.kernels.indexing import INDEXING
from meshwright_solver.verification.execution.kernels.kernel import OpKernel
from meshwright_solver.verification.execution.kernels.linear_algebra import LINEAR_ALGEBRA
from meshwright_solver.verification.execution.kernels.linear_attention import LINEAR_ATTENTION
from meshwright_solver.verification.execution.kernels.loss import LOSSES, ignored_label
from meshwright_solver.verification.execution.kernels.mixture import MIXTURE
from meshwright_solver.verification.execution.kernels.movement import MOVEMENT
from meshwright_solver.verification.execution.kernels.normalisation import NORMALISATIONS
from meshwright_solver.verification.execution.kernels.opaque import OPAQUE, why_not_executable
from meshwright_solver.verification.execution.kernels.product import PRODUCTS
from meshwright_solver.verification.execution.kernels.quantisation import QUANTISATION
from meshwright_solver.verification.execution.kernels.recurrent import RECURRENT
from meshwright_solver.verification.execution.kernels.reduction import REDUCTIONS
from meshwright_solver.verification.execution.kernels.resampling import RESAMPLING
from meshwright_solver.verification.execution.kernels.routing import ROUTING
from meshwright_solver.verification.execution.kernels.scatter import SCATTER
from meshwright_solver.verification.execution.kernels.segment import SEGMENTS
from meshwright_solver.verification.execution.kernels.softmax import SOFTMAX
from meshwright_solver.verification.execution.kernels.special import SPECIAL
from meshwright_solver.verification.execution.kernels.spectral import SPECTRAL
from meshwright_solver.verification.execution.kernels.unary import UNARY
from meshwright_solver.verification.execution.kernels.vision import VISION

KERNELS: Mapping[str, OpKernel] = {
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
    **LINEAR_ATTENTION,
    **RECURRENT,
    **ROUTING,
}


def kernel_of(kind: str) -> OpKernel:
    """The kernel of a kind; the stand-in for a kind without one."""
    return KERNELS.get(kind, OPAQUE)


__all__ = [
    "KERNELS",
    "Array",
    "KernelCall",
    "NotExecutable",
    "OpKernel",
    "OpaqueSignature",
    "ignored_label",
    "kernel_of",
    "why_not_executable",
]
