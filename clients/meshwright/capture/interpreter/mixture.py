"""Kernels of mixtures of experts.

The (token, choice) pairs of each sequence fill the slots of an expert in order. Unused slots hold
zeros. Tokens beyond the slots are dropped, unless the call gets enough slots and the experts have
no fixed capacity (`capacity_factor` 1.0).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from meshwright.capture.interpreter.run import Kernel, TorchOpCall

T = torch.Tensor


def _slots(index: T, experts: int) -> T:
    """The slot of each (token, choice) at its expert, [b, s, k]."""
    batch, length, choices = index.shape
    one_hot = F.one_hot(index.reshape(batch, length * choices), experts)
    before = one_hot.cumsum(dim=1) - one_hot
    return (before * one_hot).sum(-1).reshape(batch, length, choices)


def _sequences(index: T) -> T:
    """The sequence number of each (token, choice), [b, s, k]."""
    return torch.arange(index.shape[0])[:, None, None].expand_as(index)


def _dispatch(run: TorchOpCall) -> T:
    x, index = run.inputs
    experts = run.shapes[0][0]
    batch, length, choices = index.shape
    slots = _slots(index, experts)
    capacity = run.shapes[0][2]
    if run.slots == "enough" and run.attrs["capacity_factor"] == 1:
        capacity = max(capacity, int(slots.max()) + 1)
    slots_tensor = x.new_zeros(experts, batch, capacity + 1, x.shape[-1])
    token = x[:, :, None, :].expand(batch, length, choices, x.shape[-1])
    # dropped tokens go to an extra slot, which is cut off
    place = (index, _sequences(index), slots.clamp(max=capacity))
    return slots_tensor.index_put(place, token)[:, :, :capacity]


def _combine(run: TorchOpCall) -> T:
    y, index, weight = run.inputs
    capacity = y.shape[2]
    slots = _slots(index, y.shape[0])
    rows = y[index, _sequences(index), slots.clamp(max=capacity - 1)]
    weights = weight * (slots < capacity)
    return (rows * weights[..., None]).sum(dim=2)


def _expert_matmul(run: TorchOpCall) -> T:
    weight = run.inputs[1]
    if run.attrs["weight_layout"] == "efh":
        weight = weight.transpose(1, 2)
    return torch.einsum("ebch,ehf->ebcf", run.x, weight)


KERNELS: dict[str, Kernel] = {
    "moe_dispatch": _dispatch,
    "moe_combine": _combine,
    "expert_matmul": _expert_matmul,
}
