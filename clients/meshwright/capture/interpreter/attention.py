"""Kernel of attention, with its masks by position, soft caps and sinks.

Attrs: `causal`, `scale`, `dropout`, and optionally

    window   a query sees keys at a distance of less than so many positions
    chunk    a query sees keys of its own chunk of so many positions, up to its own
    softcap  scores become softcap * tanh(scores / softcap)
    sinks    the last input holds one score for each head; it takes weight and adds no value

The inputs are queries, keys and values, then a mask, then sinks; both are optional.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from meshwright.capture.interpreter.run import Kernel, TorchOpCall

T = torch.Tensor


def visible_keys(
    rows: int,
    columns: int,
    *,
    causal: bool,
    window: int | None = None,
    chunk: int | None = None,
    first_row: int = 0,
    device: torch.device | None = None,
) -> T:
    """Which keys each query sees, [rows, columns]; `first_row` is the position of the first."""
    query = torch.arange(first_row, first_row + rows, device=device)[:, None]
    key = torch.arange(columns, device=device)[None]
    visible = key <= query if causal else torch.ones(rows, columns, dtype=torch.bool, device=device)
    if window is not None:
        visible = visible & (query - key < window)
        visible = visible & (key - query < window)
    if chunk is not None:
        visible = visible & (query // chunk == key // chunk)
    return visible


def attention(run: TorchOpCall) -> T:
    query, key, value, *rest = run.inputs
    sinks = rest.pop() if run.attrs.get("sinks") else None
    mask = rest[0] if rest else None
    is_causal = bool(run.attrs["causal"])
    limits = {name: run.attrs[name] for name in ("window", "chunk") if name in run.attrs}
    softcap = run.attrs.get("softcap")
    is_fused = sinks is None and softcap is None
    if limits or (is_causal and not (is_fused and mask is None)):
        visible = visible_keys(
            query.shape[-2], key.shape[-2], causal=is_causal, device=query.device, **limits
        )
        mask = visible if mask is None else masked(mask, visible)
        is_causal = False
    if is_fused:
        # the short form of a causal mask is a subclass, which has no other dtype
        if type(mask) is T and mask.is_floating_point():
            mask = mask.to(query.dtype)
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=run.attrs.get("dropout", 0.0),
            is_causal=is_causal,
            scale=run.attrs["scale"],
            enable_gqa=query.dim() > 3 and query.shape[1] != key.shape[1],
        )
    weights = _weights(run, mask, sinks)
    weights = F.dropout(weights, run.attrs.get("dropout", 0.0)).to(value.dtype)
    result: T = weights @ _repeated(value, query)
    return result


def masked(mask: T, visible: T) -> T:
    """A mask or bias that also hides all keys that are not visible."""
    if mask.dtype == torch.bool:
        return mask & visible
    return mask.masked_fill(~visible, float("-inf"))


def _weights(run: TorchOpCall, mask: T | None, sinks: T | None) -> T:
    """The softmax of capped and masked scores, without the column of the sinks."""
    query, key = run.inputs[:2]
    products = query @ _repeated(key, query).transpose(-2, -1)
    wide = torch.promote_types(products.dtype, torch.float32)
    scale = run.attrs["scale"]
    scores = products.to(wide) * (query.shape[-1] ** -0.5 if scale is None else scale)
    softcap = run.attrs.get("softcap")
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        is_boolean = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, float("-inf")) if is_boolean else scores + mask
    if sinks is not None:
        column = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat((scores, column.to(scores.dtype)), dim=-1)
    weights: T = scores.softmax(-1)
    return weights[..., : key.shape[-2]]


def _repeated(tensor: T, query: T) -> T:
    """Keys or values for every query head; those without a dim of heads as they are."""
    if tensor.dim() == 3:
        return tensor
    return tensor.repeat_interleave(query.shape[1] // tensor.shape[1], dim=1)


KERNELS: dict[str, Kernel] = {"attention": attention}
