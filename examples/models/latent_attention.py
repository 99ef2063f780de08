"""Latent attention as it is served (DeepSeek-V2, Liu et al. 2024, section 2.1 and appendix C).

The products that make keys and values of the latents are absorbed: every head's query is taken to
the width of a latent, so that all heads attend to one latent and one rotary key for each position.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from meshwright.capture import Recipe


@dataclass(frozen=True)
class Sizes:
    """Of DeepSeek-V2: 128 heads of 128 and 64 rotary numbers, latents of 512."""

    hidden: int = 5120
    heads: int = 128
    head: int = 128
    rotary: int = 64
    latent: int = 512
    vocabulary: int = 102400
    layers: int = 2


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions, half against half."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class LatentAttention(nn.Module):
    """Causal attention over latents."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.query = nn.Linear(sizes.hidden, sizes.heads * (sizes.head + sizes.rotary), bias=False)
        self.down = nn.Linear(sizes.hidden, sizes.latent + sizes.rotary, bias=False)
        self.norm = nn.LayerNorm(sizes.latent)
        self.key_up = nn.Parameter(torch.empty(sizes.heads, sizes.head, sizes.latent))
        self.value_up = nn.Parameter(torch.empty(sizes.heads, sizes.latent, sizes.head))
        self.out = nn.Linear(sizes.heads * sizes.head, sizes.hidden, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        own = self.sizes
        batch, rows, _ = x.shape
        query = self.query(x).view(batch, rows, own.heads, -1).transpose(1, 2)
        plain, rotary = query.split([own.head, own.rotary], dim=-1)
        latent, key = self.down(x).split([own.latent, own.rotary], dim=-1)
        latent = self.norm(latent).unsqueeze(1)
        key = turned(key.unsqueeze(1), cos, sin)
        mixed = nn.functional.scaled_dot_product_attention(
            torch.cat([plain @ self.key_up, turned(rotary, cos, sin)], dim=-1),
            torch.cat([latent, key], dim=-1),
            latent,
            is_causal=True,
            scale=(own.head + own.rotary) ** -0.5,
            enable_gqa=True,
        )
        values = mixed @ self.value_up
        return self.out(values.transpose(1, 2).reshape(batch, rows, -1))


class LatentModel(nn.Module):
    """Layers of latent attention behind norms, between an embedding and a head."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.rotary = sizes.rotary
        self.words = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(LatentAttention(sizes) for _ in range(sizes.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.hidden) for _ in range(sizes.layers))
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        places = torch.arange(ids.shape[1], device=ids.device)[:, None]
        steps = torch.arange(0, self.rotary, 2, device=ids.device) / self.rotary
        angles = torch.cat([places * torch.exp(-math.log(10000.0) * steps)] * 2, dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x), cos, sin)
        logits = self.head(x)
        return nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def latent_attention(sizes: Sizes | None = None, batch: int = 64, seq: int = 4096) -> Recipe:
    """A model of latent attention alone, in bfloat16."""

    def inputs(given: Mapping[str, int]) -> dict[str, torch.Tensor]:
        shape = (given["batch"], given["seq"])
        return {
            name: torch.zeros(shape, dtype=torch.long, device="meta") for name in ("ids", "labels")
        }

    module = LatentModel(sizes or Sizes()).bfloat16()
    return Recipe("latent-attention", module, inputs, {"batch": batch, "seq": seq})
