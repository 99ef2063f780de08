"""Kernels of recurrent kinds."""

from __future__ import annotations

import torch

from meshwright.capture.interpreter.run import Kernel

T = torch.Tensor


def selective_scan(x: T, dt: T, a: T, b: T, c: T) -> T:
    """Selective scan: state = exp(dt a) state + dt x b, y = sum over n of c state.

    Shapes: x [b, t, h, p], dt [b, t, h], a [h, n or 1], b and c [b, t, g, n]; y like x. Groups of
    h / g heads share b and c.
    """
    heads = x.shape[2] // b.shape[2]
    b, c = (tensor.repeat_interleave(heads, dim=2) for tensor in (b, c))
    decay = torch.exp(dt[..., None] * a)[:, :, :, None]
    updates = (dt[..., None] * x)[..., None] * b[:, :, :, None]
    state = torch.zeros_like(updates[:, 0])
    outputs = []
    for step in range(x.shape[1]):
        state = decay[:, step] * state + updates[:, step]
        outputs.append((state * c[:, step, :, None]).sum(-1))
    return torch.stack(outputs, 1)


KERNELS: dict[str, Kernel] = {
    "selective_scan": lambda run: selective_scan(*run.inputs),
}
