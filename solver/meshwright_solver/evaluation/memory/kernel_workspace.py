"""Kernel workspace: temporary tensors inside kernels, in multiples of the first input.

PyTorch's cross-entropy materializes the log-softmax, and in the backward pass its gradient
(aten/src/ATen/native/LossNLL.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping

# PyTorch's AddBackward returns the gradient that it receives
PASSES_ON = "add"

_FORWARD: Mapping[str, int] = {"cross_entropy": 1}
_BACKWARD: Mapping[str, int] = {"cross_entropy": 1}


def inside_forward(kind: str) -> int:
    return _FORWARD.get(kind, 0)


def inside_backward(kind: str) -> int:
    return _BACKWARD.get(kind, 0)
