"""Kernels of linear attention and of gated linear recurrences, step by step."""

from __future__ import annotations

import torch

from meshwright.capture.interpreter.run import Kernel

T = torch.Tensor


def gated_delta_rule(query: T, key: T, value: T, decay: T, beta: T) -> T:
    """S = exp(decay) S, S = S + k (beta (v - S^T k))^T, y = S^T q with a state S [k, v] by head.

    Shapes: query and key [b, t, g, k], value [b, t, h, v], decay [b, t, h] or [b, t, h, k], beta
    [b, t, h]; y like value. Groups of h / g heads share query and key.
    """
    heads = value.shape[2] // key.shape[2]
    query, key = (x.repeat_interleave(heads, dim=2) for x in (query, key))
    rate = torch.exp(decay if decay.dim() == 4 else decay[..., None])[..., None]
    state = value.new_zeros(*value.shape[:1], *key.shape[2:], value.shape[-1])
    outputs = []
    for t in range(value.shape[1]):
        state = rate[:, t] * state
        k = key[:, t, ..., None]
        error = (value[:, t] - (state * k).sum(-2)) * beta[:, t, :, None]
        state = state + k * error[..., None, :]
        outputs.append((state * query[:, t, ..., None]).sum(-2))
    return torch.stack(outputs, 1)


def linear_recurrence(x: T, gate: T) -> T:
    """h = gate h + x by channel, from zeros: x and gate [b, t, c]; every h, like x."""
    state, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = gate[:, t] * state + x[:, t]
        outputs.append(state)
    return torch.stack(outputs, 1)


def wkv(w: T, u: T, k: T, v: T, p: T, q: T, m: T) -> tuple[T, T, T, T]:
    """RWKV: y = (p + exp(u + k) v) / (q + exp(u + k)), then p and q move on.

    p = exp(w) p + exp(k) v, q = exp(w) q + exp(k).
    Shapes: w and u [c], k and v [b, t, c], states p, q and m [b, c]. y is made from the states
    before a step. p and q are stored over exp(m), their running maximum, and have no gradient.
    """
    outputs = []
    for t in range(k.shape[1]):
        top = torch.maximum(m, u + k[:, t])
        old, new = torch.exp(m - top), torch.exp(u + k[:, t] - top)
        outputs.append((old * p + new * v[:, t]) / (old * q + new))
        top = torch.maximum(m + w, k[:, t])
        old, new = torch.exp(m + w - top), torch.exp(k[:, t] - top)
        p, q, m = old * p + new * v[:, t], old * q + new, top
    return torch.stack(outputs, 1), p, q, m


KERNELS: dict[str, Kernel] = {
    "gated_delta_rule": lambda run: gated_delta_rule(*run.inputs),
    "linear_recurrence": lambda run: linear_recurrence(*run.inputs),
    "wkv": lambda run: wkv(*run.inputs),
}
