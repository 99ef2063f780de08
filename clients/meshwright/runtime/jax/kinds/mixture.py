"""Kernels of mixtures of experts with a fixed capacity, filled in the order (token, choice)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel

A = jax.Array


def _slots(index: A, experts: int) -> A:
    """(b, s, k) The slot of each (token, choice) at its expert."""
    batch, length, choices = index.shape
    chosen = jax.nn.one_hot(index.reshape(batch, length * choices), experts, dtype=index.dtype)
    before = chosen.cumsum(axis=1) - chosen
    return (before * chosen).sum(-1).reshape(batch, length, choices)


def _sequences(index: A) -> A:
    """(b, s, k) The index of the sequence of each (token, choice)."""
    return jnp.broadcast_to(jnp.arange(index.shape[0])[:, None, None], index.shape)


def _dispatch(call: JaxOpCall) -> A:
    x, index = call.inputs
    experts, _, capacity, _ = call.shapes[0]
    batch, length, choices = index.shape
    buffer = jnp.zeros((experts, batch, capacity, x.shape[-1]), x.dtype)
    token = jnp.broadcast_to(x[:, :, None, :], (batch, length, choices, x.shape[-1]))
    return buffer.at[index, _sequences(index), _slots(index, experts)].set(token, mode="drop")


def _combine(call: JaxOpCall) -> A:
    y, index, weight = call.inputs
    capacity = y.shape[2]
    slots = _slots(index, y.shape[0])
    rows = y[index, _sequences(index), jnp.minimum(slots, capacity - 1)]
    weight = weight * (slots < capacity)
    return (rows * weight[..., None]).sum(axis=2)


def _expert_matmul(call: JaxOpCall) -> A:
    term = "efh" if call.attrs["weight_layout"] == "efh" else "ehf"
    return jnp.einsum(f"ebch,{term}->ebcf", call.x, call.inputs[1])


KERNELS: dict[str, Kernel] = {
    "moe_dispatch": _dispatch,
    "moe_combine": _combine,
    "expert_matmul": _expert_matmul,
}
