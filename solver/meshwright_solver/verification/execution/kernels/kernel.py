"""A kind's two functions."""

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

    Results may share memory with arguments: readers do not write into them. What is linear in the
    rule of the kind is linear here too: zeros instead of a part of a summed dim give the rest of
    the sum. Where the gradient of an output is zero, nothing that is not a number comes of it.
    """

    values: Forward
    gradients: Backward

    def forward(self, call: KernelCall) -> tuple[Array, ...]:
        """The outputs, in the shapes that the call names."""
        with np.errstate(all="ignore"):
            made = self.values(call)
        outputs = [made] if isinstance(made, np.ndarray | np.generic) else list(made)
        outputs = [np.asarray(own) for own in outputs[: len(call.output_shapes)]]
        shapes = tuple(own.shape for own in outputs)
        assert shapes == tuple(map(tuple, call.output_shapes)), (
            f"{call.kind} of {[own.shape for own in call.inputs]} makes {list(shapes)}, "
            f"expected {list(call.output_shapes)}"
        )
        return tuple(outputs)

    def backward(
        self,
        call: KernelCall,
        outputs: Sequence[Array],
        output_gradients: Sequence[Array | None],
    ) -> tuple[Array | None, ...]:
        """One gradient an input, None for integers; the gradient None of an output counts as 0."""
        sent = [
            np.zeros(own.shape) if gradient is None else gradient
            for own, gradient in zip(outputs, output_gradients, strict=True)
        ]
        with np.errstate(all="ignore"):
            found = list(self.gradients(call, outputs, sent))
        found += [None] * (len(call.inputs) - len(found))
        received: list[Array | None] = []
        for own, gradient in zip(call.inputs, found, strict=True):
            if not is_float(own):
                received.append(None)
                continue
            whole = np.zeros(own.shape) if gradient is None else np.asarray(gradient)
            assert whole.shape == own.shape, f"{call.kind}: gradient {whole.shape} of {own.shape}"
            received.append(whole)
        return tuple(received)


def no_gradient(
    _call: KernelCall, _outputs: Sequence[Array], _gradients: Sequence[Array]
) -> tuple[Array | None, ...]:
    """Of what is constant almost everywhere."""
    return ()
