"""Kernels of mixtures of experts with a fixed capacity, filled in the order (token, choice).

Shapes of a compiled step are fixed, so that experts have the slots of the plan. A token without a
slot is dropped. If the captured program drops none (`capacity_factor` 1.0), the log states it once
for each dispatch.
"""

from __future__ import annotations

import logging
from functools import partial

import jax
import jax.numpy as jnp

from meshwright.runtime.jax.kinds.call import JaxOpCall, Kernel

A = jax.Array
_LOG = logging.getLogger(__name__)
_logged: set[str] = set()


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
    slots = _slots(index, experts)
    if call.attrs.get("capacity_factor", 1) == 1:
        log = partial(_log_dropped, call.op.name, capacity)
        dropped = (slots >= capacity).sum()
        jax.lax.cond(dropped > 0, partial(jax.debug.callback, log), lambda _: None, dropped)
    return buffer.at[index, _sequences(index), slots].set(token, mode="drop")


def _log_dropped(op: str, capacity: int, dropped: A) -> None:
    if op not in _logged:
        _logged.add(op)
        _LOG.warning(
            "op %r drops %d tokens of a shard, which the captured program does not: the plan has "
            "%d slots of an expert for each sequence. Train in PyTorch, which adds slots, or "
            "capture a graph with more slots",
            op,
            int(dropped),
            capacity,
        )


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
