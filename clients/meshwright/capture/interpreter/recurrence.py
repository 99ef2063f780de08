"""Kinds that go through a sequence step by step."""

from __future__ import annotations

import torch

from meshwright.capture.interpreter.run import Kernel

T = torch.Tensor


def selective_scan(x: T, dt: T, a: T, b: T, c: T) -> T:
    """x [b, t, h, p], dt [b, t, h], a [h, n or 1], b and c [b, t, g, n] -> y like x.

    state = exp(dt a) state + dt x b, y = sum over n of c state; h / g heads share their b and c.
    """
    heads = x.shape[2] // b.shape[2]
    b, c = (own.repeat_interleave(heads, dim=2) for own in (b, c))
    decay = torch.exp(dt[..., None] * a)[:, :, :, None]
    added = (dt[..., None] * x)[..., None] * b[:, :, :, None]
    state = torch.zeros_like(added[:, 0])
    made = []
    for step in range(x.shape[1]):
        state = decay[:, step] * state + added[:, step]
        made.append((state * c[:, step, :, None]).sum(-1))
    return torch.stack(made, 1)


KERNELS: dict[str, Kernel] = {
    "selective_scan": lambda run: selective_scan(*run.inputs),
}
