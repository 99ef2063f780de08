"""Spellings of attention: functions of a module `m`, hidden states `x` and further inputs.

`m.qkv(x)` gives queries, keys and values [b, h, s, d]; `m.bias`, `m.slopes` and the like are
parameters. Inputs: `memory` [b, t, hidden], `padding` [b, t] (True: a key counts), `gaps`
[b, t] (at least every other key counts), `documents` [b, s] (numbers of packed documents).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

T = torch.Tensor
HEADS, WIDTH = 4, 8
HIDDEN = HEADS * WIDTH
LOW = torch.finfo(torch.float32).min
Spelling = Callable[..., T]

SPELLINGS: dict[str, Spelling] = {}


def spelling(function: Spelling) -> Spelling:
    SPELLINGS[function.__name__.replace("_", " ").strip()] = function
    return function


def merged(x: T) -> T:
    """[b, h, s, d] as [b, s, h * d]."""
    return x.transpose(1, 2).flatten(2)


def flat(x: T) -> T:
    """[b, h, s, d] as [b * h, s, d]."""
    return x.reshape(-1, *x.shape[2:])


def places(x: T, dim: int = -2) -> tuple[T, T]:
    at = torch.arange(x.shape[dim], device=x.device)
    return at[:, None], at[None, :]


def visible(x: T) -> T:
    query, key = places(x)
    return key <= query


def lowered(seen: T, low: float = LOW) -> T:
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, low)


def slopes(x: T) -> T:
    return 2.0 ** (-2.0 * torch.arange(1, HEADS + 1, device=x.device))


# scales, casts and masks


@spelling
def scores_over_a_root(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged((q @ k.transpose(-2, -1) / math.sqrt(WIDTH)).softmax(-1) @ v)


@spelling
def scaled_queries(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged((q * WIDTH**-0.5 @ k.mT).softmax(-1) @ v)


@spelling
def scaled_queries_and_keys(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged(((q * WIDTH**-0.25) @ (k * WIDTH**-0.25).mT).softmax(-1) @ v)


@spelling
def softmax_in_double_and_back(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    scores = (q @ k.mT) * 0.4 + lowered(visible(q))
    return merged(scores.double().softmax(-1).to(v.dtype) @ v)


@spelling
def masked_fill_of_infinity(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    ones = torch.ones(x.shape[1], x.shape[1], device=x.device)
    return merged((q @ k.mT).masked_fill(ones.tril() == 0, -math.inf).softmax(-1) @ v)


@spelling
def choice_of_scores(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged(torch.where(visible(q), q @ k.mT, torch.tensor(LOW)).softmax(-1) @ v)


@spelling
def added_minimum(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    mask = torch.full((x.shape[1], x.shape[1]), LOW, device=x.device).triu(1)
    return merged((q @ k.mT * 0.4 + mask[None, None]).softmax(-1) @ v)


@spelling
def scores_times_a_mask(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    seen = torch.ones(x.shape[1], x.shape[1], device=x.device).tril()
    return merged(((q @ k.mT) * seen - 1e4 * (1 - seen)).softmax(-1) @ v)


@spelling
def causal_and_padding(m: Any, x: T, padding: T) -> T:
    q, k, v = m.qkv(x)
    seen = visible(q) & padding[:, None, None, :]
    return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))


@spelling
def causal_and_padding_added(m: Any, x: T, padding: T) -> T:
    q, k, v = m.qkv(x)
    hidden = (1.0 - padding[:, None, None, :].float()) * -1e9
    return merged((q @ k.mT * 0.4 + lowered(visible(q), -1e9) + hidden).softmax(-1) @ v)


@spelling
def softmax_by_exponentials(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    scores = q @ k.mT * 0.4
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return merged((powers / powers.sum(-1, keepdim=True)) @ v)


@spelling
def softmax_divided_last(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    scores = (q @ k.mT * 0.4).masked_fill(~visible(q), -math.inf)
    return merged(scores.log_softmax(-1).exp() @ v)


@spelling
def soft_cap(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    scores = torch.tanh(q @ k.mT * 0.4 / 5.0) * 5.0
    return merged((scores + lowered(visible(q))).softmax(-1) @ v)


@spelling
def sinks(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    column = m.sinks.reshape(1, -1, 1, 1).expand(x.shape[0], -1, x.shape[1], 1)
    scores = torch.cat([q @ k.mT + lowered(visible(q)), column], dim=-1)
    return merged(scores.softmax(-1)[..., :-1] @ v)


@spelling
def dropout_of_weights(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged(F.dropout((q @ k.mT * 0.4).softmax(-1), 0.0) @ v)


# three dims


@spelling
def batched_products(m: Any, x: T) -> T:
    q, k, v = map(flat, m.qkv(x))
    mixed = torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)
    return merged(mixed.view(x.shape[0], HEADS, *mixed.shape[1:]))


@spelling
def batched_products_with_a_mask_in_four_dims(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    batch, heads, seq, _ = q.shape
    scores = torch.bmm(flat(q), flat(k).transpose(1, 2)).view(batch, heads, seq, seq)
    scores = (scores + lowered(visible(q))).view(-1, seq, seq)
    return merged(torch.bmm(scores.softmax(-1), flat(v)).view(batch, heads, seq, -1))


@spelling
def fairseq_with_the_sequence_first(m: Any, x: T) -> T:
    batch, seq, _ = x.shape
    y = x.transpose(0, 1)
    parts = (layer(y) for layer in (m.query, m.key, m.value))
    q, k, v = (p.reshape(seq, batch * HEADS, WIDTH).transpose(0, 1) for p in parts)
    scores = torch.bmm(q * WIDTH**-0.5, k.transpose(1, 2))
    scores = scores + lowered(visible(q), -math.inf)[None]
    mixed = torch.bmm(scores.softmax(-1), v)
    return mixed.transpose(0, 1).reshape(seq, batch, HIDDEN).transpose(0, 1)


@spelling
def bloom(m: Any, x: T, padding: T) -> T:
    q, k, v = m.qkv(x)
    batch, heads, seq, _ = q.shape
    at = ((padding.long().cumsum(-1) - 1) * padding)[:, None, :]
    alibi = (slopes(x)[:, None] * at).reshape(batch * heads, 1, seq)
    scores = alibi.baddbmm(flat(q), flat(k).mT, beta=1.0, alpha=WIDTH**-0.5)
    scores = scores.view(batch, heads, seq, seq) + lowered(visible(q))
    weights = scores.softmax(-1, dtype=torch.float32).view(-1, seq, seq)
    return merged(torch.bmm(weights, flat(v)).view(batch, heads, seq, -1))


@spelling
def falcon(m: Any, x: T, padding: T) -> T:
    q, k, v = m.qkv(x)
    batch, heads = q.shape[:2]
    alibi = slopes(x)[:, None] * (padding.long().cumsum(-1) - 1)[:, None, :]
    scores = (q @ k.mT) + alibi.view(batch, heads, 1, -1)
    scores = scores * WIDTH**-0.5
    return merged((scores + lowered(visible(q))).softmax(-1) @ v)


@spelling
def mpt(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    seq = x.shape[1]
    alibi = torch.arange(1 - seq, 1, device=x.device).view(1, 1, 1, seq)
    scores = q @ k.mT * 0.4 + alibi * slopes(x).view(1, HEADS, 1, 1)
    return merged(scores.masked_fill(~visible(q), LOW).softmax(-1) @ v)


@spelling
def alibi_of_distances(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    bias = -slopes(x)[:, None, None] * (query - key).abs()
    return merged((q @ k.mT * 0.4 + bias + lowered(visible(q), -math.inf)).softmax(-1) @ v)


@spelling
def alibi_of_distances_both_ways(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    bias = -slopes(x)[:, None, None] * (query - key).abs()
    return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))


@spelling
def alibi_and_mask_given_to_the_kernel(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    bias = (slopes(x)[:, None, None] * (key - query)).masked_fill(key > query, -math.inf)
    return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))


# learned biases


@spelling
def t5(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    buckets = (key - query).clamp(-7, 7) + 7
    bias = m.buckets(buckets).permute(2, 0, 1)[None] + lowered(visible(q))
    return merged((q @ k.mT + bias).softmax(-1) @ v)


@spelling
def swin(m: Any, x: T) -> T:
    # two windows of five patches, the second without the sight of its first two
    parts = m.patches(x[:, :1]).reshape(-1, 5, HIDDEN)
    q, k, v = m.qkv(parts)
    at = torch.arange(5, device=x.device)
    index = (at[:, None] - at[None, :] + 4).view(-1)
    bias = m.relative[index].view(5, 5, HEADS).permute(2, 0, 1)
    scores = q * 0.4 @ k.mT + bias[None]
    region = torch.arange(10, device=x.device).view(2, 5) // 7
    mask = lowered(region[:, None, :] == region[:, :, None], -100000.0)
    scores = scores.view(x.shape[0], 2, HEADS, 5, 5) + mask[None, :, None]
    return merged(scores.view(-1, HEADS, 5, 5).softmax(-1) @ v).reshape(x.shape[0], -1)


@spelling
def deberta(m: Any, x: T, padding: T) -> T:
    q, k, v = m.qkv(x)
    batch, heads, seq, _ = q.shape
    query, key = places(q)
    distance = (query - key).clamp(-7, 7) + 7
    by_place = m.positions.view(15, HEADS, WIDTH).transpose(0, 1)
    of_keys = (q @ by_place.mT).gather(-1, distance.expand(batch, heads, seq, seq))
    of_queries = (k @ by_place.mT).gather(-1, distance.mT.expand(batch, heads, seq, seq)).mT
    scores = q @ k.mT / math.sqrt(3 * WIDTH) + (of_keys + of_queries) / math.sqrt(3 * WIDTH)
    scores = scores.masked_fill(~padding[:, None, None, :], LOW)
    return merged(scores.softmax(-1) @ v)


# torch.nn


@spelling
def multihead_attention(m: Any, x: T) -> T:
    return m.multihead(x, x, x)[0]


@spelling
def multihead_attention_without_weights(m: Any, x: T) -> T:
    return m.multihead(x, x, x, need_weights=False)[0]


@spelling
def multihead_attention_with_masks(m: Any, x: T, padding: T) -> T:
    mask = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).triu(1)
    return m.multihead(x, x, x, key_padding_mask=~padding, attn_mask=mask)[0]


@spelling
def multihead_attention_with_masks_without_weights(m: Any, x: T, padding: T) -> T:
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
    hidden = torch.zeros(padding.shape, device=x.device).masked_fill(~padding, -math.inf)
    return m.multihead(x, x, x, key_padding_mask=hidden, attn_mask=mask, need_weights=False)[0]


@spelling
def multihead_attention_with_the_sequence_first(m: Any, x: T) -> T:
    y = x.transpose(0, 1)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
    mixed, _ = m.sequence_first(y, y, y, attn_mask=mask, is_causal=True)
    return mixed.transpose(0, 1)


@spelling
def multihead_attention_to_memory(m: Any, x: T, memory: T) -> T:
    return m.multihead(x, memory, memory)[0]


@spelling
def encoder_layer(m: Any, x: T) -> T:
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
    return m.encoder(x, src_mask=mask)


@spelling
def encoder_of_layers(m: Any, x: T) -> T:
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
    return m.encoders(x, mask=mask)


@spelling
def decoder_layer(m: Any, x: T, memory: T) -> T:
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
    return m.decoder(x, memory, tgt_mask=mask)


# groups and orders of dims


@spelling
def cross_attention(m: Any, x: T, memory: T) -> T:
    q, k, v = m.qkv(x, memory)
    return merged((q @ k.mT * 0.4).softmax(-1) @ v)


@spelling
def grouped_in_the_kernel(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    kernel = F.scaled_dot_product_attention
    return merged(kernel(q, k[:, :2], v[:, :2], is_causal=True, enable_gqa=True))


@spelling
def grouped_in_five_dims(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    q = q.unflatten(1, (2, 2))
    k, v = k[:, :2, None], v[:, :2, None]
    scores = q @ k.mT * 0.4 + lowered(visible(q))
    return merged((scores.softmax(-1) @ v).flatten(1, 2))


@spelling
def grouped_by_einsum(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    q = q.unflatten(1, (2, 2))
    scores = torch.einsum("bgrsd,bgtd->bgrst", q, k[:, :2]) + lowered(visible(q))
    return merged(torch.einsum("bgrst,bgtd->bgrsd", scores.softmax(-1), v[:, :2]).flatten(1, 2))


@spelling
def grouped_by_repeats(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    k, v = (part[:, :2].repeat_interleave(2, dim=1) for part in (k, v))
    return merged((q @ k.mT + lowered(visible(q))).softmax(-1) @ v)


@spelling
def one_group(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged((q @ k[:, :1].mT * 0.4).softmax(-1) @ v[:, :1])


@spelling
def einsum_with_heads_behind(m: Any, x: T) -> T:
    q, k, v = (part.transpose(1, 2) for part in m.qkv(x))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * 0.4
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)


@spelling
def einsum_with_heads_last(m: Any, x: T) -> T:
    q, k, v = (part.transpose(1, 2) for part in m.qkv(x))
    scores = torch.einsum("bqhd,bkhd->bqkh", q, k) * 0.4
    return torch.einsum("bqkh,bkhd->bqhd", scores.softmax(2), v).flatten(2)


@spelling
def one_head(m: Any, x: T) -> T:
    q, k, v = (layer(x) for layer in (m.query, m.key, m.value))
    return torch.bmm((torch.bmm(q, k.transpose(1, 2)) * 0.2).softmax(-1), v)


@spelling
def keys_on_the_left(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged((k @ q.mT * 0.4).softmax(-2).mT @ v)


# windows and documents


@spelling
def window_both_ways(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    return merged(
        F.scaled_dot_product_attention(q, k, v, attn_mask=((query - key).abs() <= 3)[None, None])
    )


@spelling
def window_both_ways_added(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    return merged((q @ k.mT * 0.4 + lowered((query - key).abs() < 3)).softmax(-1) @ v)


@spelling
def window_and_gaps(m: Any, x: T, gaps: T) -> T:
    q, k, v = m.qkv(x)
    query, key = places(q)
    seen = (key <= query) & (key > query - 4) & gaps[:, None, None, :]
    return merged((q @ k.mT * 0.4).masked_fill(~seen, LOW).softmax(-1) @ v)


@spelling
def packed_documents(m: Any, x: T, documents: T) -> T:
    q, k, v = m.qkv(x)
    seen = visible(q) & (documents[:, None, :, None] == documents[:, None, None, :])
    return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))


@spelling
def packed_by_restarted_positions(m: Any, x: T, documents: T) -> T:
    q, k, v = m.qkv(x)
    starts = F.pad(documents[:, 1:] != documents[:, :-1], (1, 0))
    number = starts.long().cumsum(-1)
    seen = visible(q)[None] & (number[:, :, None] == number[:, None, :])
    return merged((q @ k.mT * 0.4 + lowered(seen[:, None])).softmax(-1) @ v)


# flex attention


@spelling
def flex(m: Any, x: T) -> T:
    return merged(flex_attention(*m.qkv(x)))


@spelling
def flex_causal(m: Any, x: T) -> T:
    mask = create_block_mask(
        lambda _b, _h, q, k: k <= q, None, None, x.shape[1], x.shape[1], device=x.device
    )
    return merged(flex_attention(*m.qkv(x), block_mask=mask))


@spelling
def flex_window(m: Any, x: T) -> T:
    mask = create_block_mask(
        lambda _b, _h, q, k: (k <= q) & (q - k < 4),
        None, None, x.shape[1], x.shape[1], device=x.device,
    )  # fmt: skip
    return merged(flex_attention(*m.qkv(x), block_mask=mask))


@spelling
def flex_documents(m: Any, x: T, documents: T) -> T:
    mask = create_block_mask(
        lambda b, _h, q, k: (k <= q) & (documents[b, q] == documents[b, k]),
        x.shape[0], None, x.shape[1], x.shape[1], device=x.device,
    )  # fmt: skip
    return merged(flex_attention(*m.qkv(x), block_mask=mask))


@spelling
def flex_soft_cap(m: Any, x: T) -> T:
    return merged(flex_attention(*m.qkv(x), score_mod=lambda s, *_: 5.0 * torch.tanh(s / 5.0)))


@spelling
def flex_alibi(m: Any, x: T) -> T:
    slope = slopes(x)
    return merged(
        flex_attention(*m.qkv(x), score_mod=lambda s, _b, h, q, k: s + slope[h] * (k - q))
    )


@spelling
def flex_groups(m: Any, x: T) -> T:
    q, k, v = m.qkv(x)
    return merged(flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True))
