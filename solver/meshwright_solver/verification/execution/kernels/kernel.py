"""A kernel: the forward and backward functions of an operator kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, is_float

Forward = Callable[[KernelCall], "Array | Sequence[Array]"]
Backward = Callable[[KernelCall, Sequence[Array], Sequence[Array]], "Sequence[Array | None]"]


@dataclass(frozen=True, slots=True)
class OpKernel:
    """Values and vector-Jacobian products of one kind.

    Results may share memory with arguments, so readers do not write into them. A kernel is linear
    where the sharding rule of its kind is. With zeros for a part of a summed dim it returns the sum
    of the rest. Where the gradient of an output is zero, no input gradient becomes NaN.
    """

    values: Forward
    gradients: Backward

    def forward(self, call: KernelCall) -> tuple[Array, ...]:
        """The outputs, in the shapes that the call names."""
        with np.errstate(all="ignore"):
            values = self.values(call)
        outputs = [values] if isinstance(values, np.ndarray | np.generic) else list(values)
        outputs = [np.asarray(output) for output in outputs[: len(call.output_shapes)]]
        shapes = tuple(output.shape for output in outputs)
        assert shapes == tuple(map(tuple, call.output_shapes)), (
            f"{call.kind} of {[array.shape for array in call.inputs]} makes {list(shapes)}, "
            f"expected {list(call.output_shapes)}"
        )
        return tuple(outputs)

    def backward(
        self,
        call: KernelCall,
        outputs: Sequence[Array],
        output_gradients: Sequence[Array | None],
    ) -> tuple[Array | None, ...]:
        """One gradient an input, None for integers; None as an output's gradient counts as zero."""
        sent = [
            np.zeros(output.shape) if gradient is None else gradient
            for output, gradient in zip(outputs, output_gradients, strict=True)
        ]
        with np.errstate(all="ignore"):
            gradients = list(self.gradients(call, outputs, sent))
        gradients += [None] * (len(call.inputs) - len(gradients))
        received: list[Array | None] = []
        for array, gradient in zip(call.inputs, gradients, strict=True):
            if not is_float(array):
                received.append(None)
                continue
            whole = np.zeros(array.shape) if gradient is None else np.asarray(gradient)
            assert whole.shape == array.shape, (
                f"{call.kind}: gradient {whole.shape} of {array.shape}"
            )
            received.append(whole)
        return tuple(received)


def no_gradient(
    _call: KernelCall, _outputs: Sequence[Array], _gradients: Sequence[Array]
) -> tuple[Array | None, ...]:
    """No gradients, for kinds that are constant almost everywhere."""
    return ()
