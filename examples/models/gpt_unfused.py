"""GPT with attention written out and dropout, as Korthikanti et al. 2022 count its activations.

The blocks of their figure 2 in plain PyTorch: no fused attention, dropout on the weights of
attention and on what both halves of a layer add, GeLU, a bias on every product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from meshwright.capture import Recipe


@dataclass(frozen=True)
class Sizes:
    """One row of table 3 of the paper; sequence 2048, vocabulary 51,200 in all of them."""

    heads: int
    hidden: int
    layers: int
    tensor_parallel: int
    pipeline: int
    microbatch: int
    sequence: int = 2048
    vocabulary: int = 51200


# Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", table 3
SIZES: Mapping[str, Sizes] = {
    "22B": Sizes(64, 6144, 48, 8, 1, 4),
    "175B": Sizes(96, 12288, 96, 8, 8, 1),
    "530B": Sizes(128, 20480, 105, 8, 35, 1),
    "1T": Sizes(160, 25600, 128, 8, 64, 1),
}


class Attention(nn.Module):
    """Causal attention in matrix products."""

    def __init__(self, sizes: Sizes, share: float) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.hidden, sizes.hidden)
        self.key = nn.Linear(sizes.hidden, sizes.hidden)
        self.value = nn.Linear(sizes.hidden, sizes.hidden)
        self.out = nn.Linear(sizes.hidden, sizes.hidden)
        self.weights_dropout = nn.Dropout(share)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, hidden = x.shape
        shape = (batch, rows, self.heads, hidden // self.heads)
        query, key, value = (
            own(x).view(shape).transpose(1, 2) for own in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(2, 3)) / (hidden // self.heads) ** 0.5
        hidden_later = torch.ones(rows, rows, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(hidden_later, -10000.0).softmax(-1)
        mixed = torch.matmul(self.weights_dropout(weights), value)
        return self.out(mixed.transpose(1, 2).reshape(batch, rows, hidden))


class Layer(nn.Module):
    """Attention and a perceptron, each behind a norm and a dropout before it is added."""

    def __init__(self, sizes: Sizes, share: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(sizes.hidden)
        self.attention = Attention(sizes, share)
        self.attention_dropout = nn.Dropout(share)
        self.mlp_norm = nn.LayerNorm(sizes.hidden)
        self.up = nn.Linear(sizes.hidden, 4 * sizes.hidden)
        self.gelu = nn.GELU()
        self.down = nn.Linear(4 * sizes.hidden, sizes.hidden)
        self.mlp_dropout = nn.Dropout(share)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention_dropout(self.attention(self.norm(x)))
        return x + self.mlp_dropout(self.down(self.gelu(self.up(self.mlp_norm(x)))))


class Gpt(nn.Module):
    """Embeddings, layers, and a head that shares the table of words."""

    def __init__(self, sizes: Sizes, layers: int, share: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.places = nn.Embedding(sizes.sequence, sizes.hidden)
        self.dropout = nn.Dropout(share)
        self.layers = nn.ModuleList(Layer(sizes, share) for _ in range(layers))
        self.norm = nn.LayerNorm(sizes.hidden)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.words(ids) + self.places(places))
        for layer in self.layers:
            x = layer(x)
        logits = nn.functional.linear(self.norm(x), self.words.weight)
        return nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def gpt(name: str, layers: int | None = None) -> Recipe:
    """The model of SIZES, in bfloat16, with all of its layers or the first few."""
    sizes = SIZES[name]

    def inputs(given: Mapping[str, int]) -> dict[str, torch.Tensor]:
        shape = (given["batch"], sizes.sequence)
        return {
            "ids": torch.zeros(shape, dtype=torch.long, device="meta"),
            "labels": torch.zeros(shape, dtype=torch.long, device="meta"),
        }

    module = Gpt(sizes, sizes.layers if layers is None else layers).bfloat16()
    return Recipe(f"gpt-{name}", module, inputs, {"batch": sizes.microbatch})


gpt_22b = partial(gpt, "22B")
gpt_175b = partial(gpt, "175B")
gpt_530b = partial(gpt, "530B")
gpt_1t = partial(gpt, "1T")
