"""Calls of image, cache and expert kinds, and their meanings in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.solver.verification.execution.kernel_cases import (
    Case,
    Torch,
    case,
    positive,
    random,
    real,
    truth,
)

T = torch.Tensor


BOXES = np.array([[0.1, 0.2, 0.9, 0.7], [0.5, 0.1, 0.2, 0.8], [0.3, 0.3, 1.4, 0.9]])


def crops(x: T, boxes: T, image: T, value: float = 0.0) -> T:
    """By torch's grids; what lies outside gets the value."""
    rows, columns = (torch.linspace(0, 1, n, dtype=torch.float64) for n in (3, 4))
    y = boxes[:, 0, None] * (1 - rows) + boxes[:, 2, None] * rows
    z = boxes[:, 1, None] * (1 - columns) + boxes[:, 3, None] * columns
    y, z = torch.broadcast_tensors(y[:, :, None], z[:, None, :])
    grid = torch.stack([2 * z - 1, 2 * y - 1], -1)
    images = x.movedim(-1, 1)[image]
    made = F.grid_sample(images, grid, align_corners=True, padding_mode="border")
    inside = (y >= 0) & (y <= 1) & (z >= 0) & (z <= 1)
    return torch.where(inside[:, None], made, value).movedim(1, -1)


REGIONS = np.array(
    [[0.0, 1.0, 2.0, 7.0, 9.0], [1.0, 4.2, 0.3, 6.9, 5.5], [1.0, -3.0, 9.0, 2.0, 30.0]]
)


def regions(x: T, rois: T) -> T:
    """Sample by sample: two by two in each of 3 by 2 places, at half the coordinates."""
    made = []
    for number, x0, y0, x1, y1 in rois.tolist():
        x0, y0, x1, y1 = x0 / 2, y0 / 2, (x1 + 1) / 2, (y1 + 1) / 2
        tall, wide = max(y1 - y0, 1.0), max(x1 - x0, 1.0)
        image = x[int(number)]
        places = []
        for i in range(6):
            for j in range(4):
                y, z = y0 + (i + 0.5) * tall / 6, x0 + (j + 0.5) * wide / 4
                places.append(sample(image, y, z))
        whole_ = torch.stack(places, -1).reshape(-1, 3, 2, 2, 2)
        made.append(whole_.mean([2, 4]))
    return torch.stack(made)


def sample(image: T, y: float, x: float) -> T:
    _, height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros(len(image), dtype=image.dtype)
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    return (
        image[:, top, left] * (1 - v) * (1 - u) + image[:, top, right] * (1 - v) * u
        + image[:, below, left] * v * (1 - u) + image[:, below, right] * v * u
    )  # fmt: skip


def encoded(boxes: T, targets: T) -> T:
    w, h = boxes[:, 2] - boxes[:, 0] + 1, boxes[:, 3] - boxes[:, 1] + 1
    tw, th = targets[:, 2] - targets[:, 0] + 1, targets[:, 3] - targets[:, 1] + 1
    dx = (targets[:, 0] + targets[:, 2] - boxes[:, 0] - boxes[:, 2]) / 2 / w
    dy = (targets[:, 1] + targets[:, 3] - boxes[:, 1] - boxes[:, 3]) / 2 / h
    made = torch.stack([dx, dy, (tw / w).log(), (th / h).log()], 1)
    means = torch.tensor([0.1, 0, 0, 0], dtype=torch.float64)
    return (made - means) / torch.tensor([1, 1, 2, 2])


def cells(box: list[int]) -> set[tuple[int, int]]:
    return {(i, j) for i in range(box[0], box[2] + 1) for j in range(box[1], box[3] + 1)}


def overlap(mode: str) -> Torch:
    """By counting the cells of whole-number boxes."""

    def run(boxes: T, targets: T) -> T:
        made = [
            [
                len(cells(target) & cells(box))
                / len(cells(target) | cells(box) if mode == "iou" else cells(target))
                for box in boxes.long().tolist()
            ]
            for target in targets.long().tolist()
        ]
        return torch.tensor(made, dtype=torch.float64)

    return run


WHOLE_BOXES = np.array([[0.0, 0.0, 3.0, 4.0], [2.0, 2.0, 6.0, 3.0], [5.0, 5.0, 6.0, 7.0]])
TARGETS = np.array([[1.0, 1.0, 4.0, 4.0], [0.0, 0.0, 9.0, 9.0]])
SPANS = np.concatenate([5 * real(3, 2), 5 * real(3, 2) + 30], axis=1)

VISION: list[Case] = [
    *(
        case("grid_sample", real(2, 3, 4, 5), 1.3 * random.uniform(-1, 1, (2, 3, 2, 2)),
             align_corners=aligned, padding_mode=padding,
             by=lambda x, g, a=aligned, p=padding: F.grid_sample(
                 x, g, align_corners=a, padding_mode=p))
        for aligned in (True, False) for padding in ("zeros", "border")
    ),
    case("crop_and_resize", real(2, 5, 6, 3), BOXES, np.array([0, 1, 1]), by=crops),
    case("crop_and_resize", real(2, 5, 6, 3), BOXES, np.array([0, 1, 1]), value=0.5,
         by=lambda x, b, i: crops(x, b, i, 0.5)),
    case("roi_align", real(2, 3, 6, 5), REGIONS, scale=0.5, samples=2, by=regions),
    case("box_encode", SPANS, SPANS + positive(3, 4) * [0, 0, 1, 1], means=[0.1, 0, 0, 0],
         stds=[1, 1, 2, 2], by=encoded),
    *(case("iou", WHOLE_BOXES, TARGETS, mode=mode, by=overlap(mode)) for mode in ("iou", "iof")),
    case("random_choice_with_mask", np.array([[True, False], [True, True]]),
         by=lambda _: (torch.tensor([[0, 0], [1, 0], [1, 1], [0, 0]]),
                       torch.tensor([True, True, True, False]))),
    case("check_valid", np.array([[0.0, 0, 9, 4], [-1, 0, 5, 4], [0, 0, 10, 4], [0, 0, 5, 5]]),
         np.array([5.0, 10.0, 1.0]), by=lambda *_: torch.tensor([True, False, False, False])),
]  # fmt: skip


def turned_by(x: T, cos: T, sin: T) -> T:
    cos, sin = (own[:, None] if own.ndim == 3 else own for own in (cos, sin))
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def both_turned(q: T, k: T, cos: T, sin: T) -> tuple[T, T]:
    return turned_by(q, cos, sin), turned_by(k, cos, sin)


def updated(cache: T, rows: T, start: T, *_: T) -> T:
    made = cache.clone()
    for b in range(len(cache)):
        at = int(start.reshape(-1)[b % start.numel()])
        made[b, :, at : at + rows.shape[2]] = rows[b]
    return made


def cached(k: T, v: T, keys: T, values: T, slots: T) -> tuple[T, T]:
    made = [own.detach().clone() for own in (keys, values)]
    for rows, cache in zip((k, v), made, strict=True):
        for row, slot in zip(rows.detach(), slots.tolist(), strict=True):
            if slot >= 0:
                cache[slot // 4, slot % 4] = row.reshape(2, 3)
    return made[0], made[1]


def paged(q: T, keys: T, values: T, tables: T, lengths: T, mask: T | None = None) -> T:
    """Sequence by sequence with torch's attention on the rows that the table names."""
    made = []
    for b, length in enumerate(lengths.tolist()):
        k = keys[tables[b]].reshape(-1, 2, 3)[:length].movedim(1, 0)
        v = values[tables[b]].reshape(-1, 2, 3)[:length].movedim(1, 0)
        own = q[b].reshape(4, 1, 3)
        more = None if mask is None else mask[b].expand(4, -1)[:, None, :length]
        made.append(
            F.scaled_dot_product_attention(
                own, k.repeat_interleave(2, 0), v.repeat_interleave(2, 0), attn_mask=more, scale=0.4
            )
        )
    return torch.stack(made).reshape(q.shape).detach()


def rwkv(w: T, u: T, k: T, v: T, p: T, q: T, m: T) -> tuple[T, ...]:
    """Step by step with the running maximum."""
    made = []
    for t in range(k.shape[1]):
        top = torch.maximum(m, u + k[:, t])
        old, new = torch.exp(m - top), torch.exp(u + k[:, t] - top)
        made.append((old * p + new * v[:, t]) / (old * q + new))
        top = torch.maximum(m + w, k[:, t])
        old, new = torch.exp(m + w - top), torch.exp(k[:, t] - top)
        p, q, m = old * p + new * v[:, t], old * q + new, top
    return torch.stack(made, 1), p.detach(), q.detach(), m.detach()


def scanned(x: T, dt: T, a: T, b: T, c: T) -> T:
    """All pairs of steps at once: y_t = sum over s <= t of (c_t b_s exp(a sum of dt)) dt_s x_s."""
    heads = x.shape[2] // b.shape[2]
    b, c = (own.repeat_interleave(heads, 2) for own in (b, c))
    past = dt.cumsum(1)
    since = past[:, :, None] - past[:, None]
    seen = torch.ones(x.shape[1], x.shape[1], dtype=x.dtype).tril()[None, :, :, None, None]
    decay = torch.exp(since[..., None] * a) * seen
    return torch.einsum("btshn,bthn,bshn,bsh,bshp->bthp", decay, c, b, dt, x)


SEEN = [6, 7, 14, 15]  # the last quarter of two blocks of eight


def sparse_scores(q: T, k: T, local: T, whole_: T) -> tuple[T, T]:
    full = q @ k.mT
    blocks = [full[:, :, i : i + 8, i : i + 8] for i in (0, 8)]
    return torch.stack(blocks, 2) + local, k[:, :, SEEN] @ q.mT + whole_


def sparse_mix(local: T, whole_: T, v: T) -> T:
    blocks = [local[:, :, i] @ v[:, :, 8 * i : 8 * i + 8] for i in (0, 1)]
    return torch.cat(blocks, 2) + whole_.mT @ v[:, :, SEEN]


PAGED = (real(2, 12), real(5, 4, 2, 3), real(5, 4, 2, 3), np.array([[3, 1], [0, 4]]),
         np.array([6, 3]))  # fmt: skip

CACHE: list[Case] = [
    case("rotary_pair", real(2, 4, 5, 6), real(2, 2, 5, 6), real(5, 6), real(5, 6), by=both_turned),
    case("rotary_pair", real(2, 3, 5, 4), real(2, 3, 5, 4), real(2, 5, 4), real(2, 5, 4),
         by=both_turned),
    case("kv_update", real(3, 2, 6, 4), real(3, 2, 1, 4), np.array([2, 0, 5]), by=updated),
    case("kv_update", real(3, 2, 6, 4), real(3, 2, 2, 4), np.array([3]), np.array([-2]),
         by=updated),
    case("reshape_and_cache", real(3, 6), real(3, 6), real(5, 4, 2, 3), real(5, 4, 2, 3),
         np.array([7, -1, 16]), by=cached),
    case("paged_attention", *PAGED, scale=0.4, by=paged),
    case("paged_attention", *PAGED, real(2, 4, 8), scale=0.4, by=paged),
    case("paged_attention", PAGED[0][:, None], *PAGED[1:], real(2, 1, 8), scale=0.4, by=paged),
    case("wkv", -positive(3), real(3), real(2, 5, 3), real(2, 5, 3), real(2, 3), positive(2, 3),
         real(2, 3), by=rwkv),
    case("selective_scan", real(2, 5, 4, 3), positive(2, 5, 4), -positive(4, 1), real(2, 5, 2, 3),
         real(2, 5, 2, 3), by=scanned),
    case("selective_scan", real(2, 5, 4, 1), positive(2, 5, 4), -positive(4, 3), real(2, 5, 1, 3),
         real(2, 5, 1, 3), by=scanned),
    case("block_scores", real(2, 3, 16, 4), real(2, 3, 16, 4), real(2, 8, 8), real(4, 16),
         by=sparse_scores),
    case("block_mix", real(2, 3, 2, 8, 8), real(2, 3, 4, 16), real(2, 3, 16, 4), by=sparse_mix),
]  # fmt: skip


def by_runs(x: T, weight: T, ends: T) -> T:
    made, start = [], 0
    for expert, end in enumerate(ends.tolist()):
        made.append(x[start:end] @ weight[expert])
        start = end
    return torch.cat(made)


def dense_ffn(activation: Any) -> Torch:
    def run(x: T, first: T, second: T, *biases: T) -> T:
        hidden = x @ first + (biases[0] if biases else 0)
        return (activation(hidden) @ second + (biases[1] if biases[1:] else 0)).detach()

    return run


def expert_ffn(x: T, first: T, second: T, ends: T, *biases: T) -> T:
    made, start = [], 0
    for e, end in enumerate(ends.tolist()):
        hidden = x[start:end] @ first[e] + (biases[0][e] if biases else 0)
        made.append(F.relu(hidden) @ second[e] + (biases[1][e] if biases[1:] else 0))
        start = end
    return torch.cat(made).detach()


def gated(x: T, finished: T | None = None) -> tuple[T, T, T]:
    weight, expert = x.softmax(-1).topk(2, -1)
    if finished is not None:
        expert = torch.where(finished[:, None], x.shape[1], expert)
    return weight, expert, torch.arange(8).reshape(2, 4).T


ROW_NUMBERS = np.array([[0, 3], [1, 4], [2, 5]])
EXPERTS = np.array([[1, 0], [0, 2], [1, 2]])


def init_by_hand(x: T, *_: T) -> tuple[T, T, T]:
    """Experts stand in memory as [token, choice] and rows are read with them."""
    experts, rows = torch.tensor(EXPERTS).reshape(-1), torch.tensor(ROW_NUMBERS).reshape(-1)
    pairs = sorted(zip(experts.tolist(), range(6), rows.tolist(), strict=True))
    order = [row for _, _, row in pairs]
    place = torch.zeros(6, dtype=torch.int64)
    for at, row in enumerate(order):
        place[row] = at
    tokens = torch.tensor([row % 3 for row in order])
    return x[tokens], place, experts.sort().values


def finalized(rows: T, first: T, second: T, bias: T, scale: T, number: T, expert: T) -> T:
    made = []
    for t in range(3):
        own = first[t] + second[t]
        for j in range(2):
            own = own + scale[t, j] * (rows[number[j * 3 + t]] + bias[expert[t, j]])
        made.append(own)
    return torch.stack(made)


# tokens choose (0 1) (1 0) (0 1) (2 0); two slots each
CHOICES = np.array([[[0, 1], [1, 0], [0, 1], [2, 0]]])
# in order of tokens: expert 0 gets tokens 1 2, expert 1 tokens 1 2, expert 2 token 4
BY_TOKEN = [[[1, 2], [1, 2], [4, 0]]]
BACK_BY_TOKEN = [[[1, 4], [5, 2], [0, 3], [7, 0]]]
# first choices first: expert 0 gets 1 3, expert 1 gets 2 and then 1, expert 2 gets 4
BY_CHOICE = [[[1, 3], [2, 1], [4, 0]]]
BACK_BY_CHOICE = [[[1, 5], [4, 0], [2, 3], [7, 0]]]
# a second choice counts where the first has not half of the probability: tokens 2 and 4
SHARES = np.array([[[0.6, 0.3], [0.4, 0.3], [0.7, 0.1], [0.2, 0.2]]])
BY_SHARE = [[[1, 2], [2, 0], [4, 0]]]
BACK_BY_SHARE = [[[1, 3], [4, 2], [0, 3], [7, 0]]]

ENDS = np.array([2, 2, 6])

ROUTED: list[Case] = [
    case("grouped_matmul", real(6, 4), real(3, 4, 5), ENDS, by=by_runs),
    case("ffn", real(2, 3, 4), real(4, 6), real(6, 5), activation="gelu", by=dense_ffn(F.gelu)),
    case("ffn", real(3, 4), real(4, 6), real(6, 5), real(6), activation="silu",
         by=dense_ffn(F.silu)),
    case("ffn", real(3, 4), real(4, 6), real(6, 5), real(6), real(5), activation="fastgelu",
         by=dense_ffn(lambda x: x * torch.sigmoid(1.702 * x))),
    case("ffn", real(6, 4), real(3, 4, 8), real(3, 8, 5), ENDS, activation="relu", by=expert_ffn),
    case("ffn", real(6, 4), real(3, 4, 8), real(3, 8, 5), ENDS, real(3, 8), activation="relu",
         by=expert_ffn),
    case("ffn", real(6, 4), real(3, 4, 8), real(3, 8, 5), ENDS, real(3, 8), real(3, 5),
         activation="relu", by=expert_ffn),
    case("moe_expert_tokens", np.array([0, 0, 1, 3, 3]), by=lambda _: torch.tensor([2, 3, 3, 5])),
    case("moe_gating_topk", real(4, 5), by=gated),
    case("moe_gating_topk", real(4, 5), truth(4), by=gated),
    case("moe_init_routing", real(3, 4), ROW_NUMBERS, EXPERTS, by=init_by_hand),
    case("moe_finalize_routing", real(6, 4), real(3, 4), real(3, 4), real(3, 4), real(3, 2),
         np.array([2, 0, 3, 1, 4, 5]), EXPERTS, by=finalized),
    case("topk_router", CHOICES,
         by=lambda _: (torch.tensor(BY_TOKEN), torch.tensor(BACK_BY_TOKEN))),
    case("topk_router", CHOICES, drop="kdrop",
         by=lambda _: (torch.tensor(BY_CHOICE), torch.tensor(BACK_BY_CHOICE))),
    case("topp_router", CHOICES, SHARES, threshold=0.5,
         by=lambda *_: (torch.tensor(BY_SHARE), torch.tensor(BACK_BY_SHARE))),
]  # fmt: skip

CASES = [*VISION, *CACHE, *ROUTED]
