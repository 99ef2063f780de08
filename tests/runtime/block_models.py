"""A transformer of one block whose every choice is a field, and changes of it that keep its names.

Two of these modules with different fields have the same parameters by name and shape, except where
a field removes a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from meshwright.capture import capture_module
from meshwright.runtime.torch.module_check import ModuleCheck, compare_module
from meshwright.schema import Graph

T = torch.Tensor
HIDDEN, WORDS, LENGTH = 16, 32, 8


@dataclass(frozen=True)
class Choices:
    """The program of a block model."""

    heads: int = 4
    activation: Callable[[T], T] = F.gelu
    epsilon: float = 1e-5
    norm: str = "layer"
    is_causal: bool = True
    scale: float | None = None
    residual: float = 1.0
    has_bias: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    is_tied: bool = False
    is_post_norm: bool = False
    first: int = 0  # of the positions
    rows_of_heads: bool = False  # heads by reshape alone, which mixes positions
    transposes: bool = False  # the square projection, transposed
    swaps: bool = False  # query and key
    reduction: str = "mean"
    ignored: int = -100
    smoothing: float = 0.0
    temperature: float = 1.0
    cap: float | None = None
    inner: Callable[[T], T] = lambda x: x  # around the input of the feed-forward part
    order: tuple[str, ...] = ("attention", "feed_forward")


class BlockModel(nn.Module):
    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.choices = choices
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.places = nn.Embedding(2 * LENGTH, HIDDEN)
        self.query, self.key, self.value, self.out = (
            nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4)
        )
        self.up = nn.Linear(HIDDEN, 2 * HIDDEN, bias=choices.has_bias)
        self.down = nn.Linear(2 * HIDDEN, HIDDEN)
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN, eps=choices.epsilon) for _ in range(2))
        self.drop = nn.Dropout(choices.dropout)
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)
        if choices.is_tied:
            self.head.weight = self.words.weight

    def forward(self, ids: T, labels: T) -> T:
        of = self.choices
        x = self.words(ids) + self.places(torch.arange(of.first, of.first + LENGTH))
        parts = {"attention": self.attention, "feed_forward": self.feed_forward}
        for norm, name in zip(self.norms, of.order, strict=True):
            if of.is_post_norm:
                x = self.normed(norm, x + self.drop(parts[name](x)))
            else:
                x = x + of.residual * self.drop(parts[name](self.normed(norm, x)))
        logits = self.head(x) / of.temperature
        logits = logits if of.cap is None else of.cap * torch.tanh(logits / of.cap)
        return F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction=of.reduction,
            ignore_index=of.ignored, label_smoothing=of.smoothing,
        )  # fmt: skip

    def normed(self, norm: nn.Module, x: T) -> T:
        assert isinstance(norm, nn.LayerNorm)
        if self.choices.norm == "layer":
            result: T = norm(x)
            return result
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + norm.eps) * norm.weight + norm.bias

    def attention(self, x: T) -> T:
        of, (rows, length, hidden) = self.choices, x.shape
        query, key, value = (self.heads(part(x)) for part in (self.query, self.key, self.value))
        if of.swaps:
            query, key = key, query
        seen = F.scaled_dot_product_attention(
            query,
            key,
            value,
            is_causal=of.is_causal,
            scale=of.scale,
            dropout_p=of.attention_dropout,
        )
        seen = seen.transpose(1, 2).reshape(rows, length, hidden)
        return F.linear(seen, self.out.weight.T) if of.transposes else self.out(seen)

    def heads(self, x: T) -> T:
        rows, length, hidden = x.shape
        width = hidden // self.choices.heads
        if self.choices.rows_of_heads:
            return x.reshape(rows, self.choices.heads, length, width)
        return x.view(rows, length, self.choices.heads, width).transpose(1, 2)

    def feed_forward(self, x: T) -> T:
        of = self.choices
        return self.down(of.activation(self.up(of.inner(x))))


def block_model(**changes: Any) -> BlockModel:
    return BlockModel(replace(Choices(), **changes))


def block_inputs(sizes: Mapping[str, int]) -> dict[str, T]:
    """Ids and labels on the meta device."""
    shape = (sizes["batch"], LENGTH)
    return {n: torch.zeros(shape, dtype=torch.long, device="meta") for n in ("ids", "labels")}


def block_graph(module: nn.Module, rows: int = 4) -> Graph:
    return capture_module(module, block_inputs, symbols={"batch": rows}, name="block")


@cache
def captured_block(**changes: Any) -> Graph:
    """The graph of a block model with these choices."""
    return block_graph(block_model(**changes))


def compared(module: nn.Module, graph: Graph) -> ModuleCheck:
    """The check of a module by the ops of a graph, at the sizes of the graph."""
    return compare_module(module, graph, "graph", symbols=graph.symbols)
