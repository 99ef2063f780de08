"""Small models in float64 throughout, so that a run on several ranks can equal one to rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

from meshwright.capture import capture_module
from meshwright.schema import Graph

T = torch.Tensor


@dataclass(frozen=True)
class Model:
    """build: the module. inputs: random ones of these sizes. lengths: sizes beside the batch."""

    build: Callable[[], nn.Module]
    inputs: Callable[[Mapping[str, int]], dict[str, T]]
    lengths: Mapping[str, int] = field(default_factory=dict)

    def batch(self, rows: int) -> dict[str, T]:
        """Random inputs of so many rows."""
        return self.inputs({"batch": rows, **self.lengths})

    def graph(self, rows: int) -> Graph:
        """Captured with these sizes as its symbols."""

        def inputs(sizes: Mapping[str, int]) -> dict[str, T]:
            return {name: own.to("meta") for name, own in self.inputs(sizes).items()}

        symbols = {"batch": rows, **self.lengths}
        return capture_module(self.build().double(), inputs, symbols=symbols, name="small")


class Norm(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: T) -> T:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turned(x: T, cos: T, sin: T) -> T:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.width = hidden // heads
        self.attention_norm, self.mlp_norm = Norm(hidden), Norm(hidden)
        for name, (given, made) in {
            "query": (hidden, hidden), "key": (hidden, groups * self.width),
            "value": (hidden, groups * self.width), "out": (hidden, hidden),
            "gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden),
        }.items():  # fmt: skip
            setattr(self, name, nn.Linear(given, made, bias=False))

    def forward(self, x: T, cos: T, sin: T) -> T:
        rows, length, hidden = x.shape
        y = self.attention_norm(x)
        query, key, value = (
            own(y).view(rows, length, -1, self.width).transpose(1, 2)
            for own in (self.query, self.key, self.value)
        )
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, hidden))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Grouped heads, rotary positions, labels moved by one of which some are ignored."""

    def __init__(self) -> None:
        super().__init__()
        hidden, heads, vocabulary = 32, 4, 64
        self.width = hidden // heads
        self.table = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(LlamaLayer(hidden, heads, 2, 48) for _ in range(2))
        self.norm, self.head = Norm(hidden), nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids)
        steps = torch.arange(0, self.width, 2, dtype=x.dtype)
        places = torch.arange(ids.shape[1], dtype=x.dtype)
        angles = places[:, None] * torch.exp(steps * (-9.2 / self.width))
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.head(self.norm(x))
        labels = F.pad(labels, (0, 1), value=-100)[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), labels.reshape(-1), ignore_index=-100)


def text(sizes: Mapping[str, int]) -> dict[str, T]:
    """Ids, and labels of which rows have different numbers."""
    rows, length = sizes["batch"], sizes["seq"]
    ids = torch.randint(0, 64, (rows, length))
    kept = torch.arange(length) >= torch.arange(rows)[:, None] % 5
    return {"ids": ids, "labels": ids.where(kept, -100)}


MODELS = {"llama": Model(Llama, text, {"seq": 8})}
