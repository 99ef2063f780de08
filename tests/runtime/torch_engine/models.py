"""Models of the engine `torch`: transformers' own, and users' with sizes of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import nn

from tests.runtime.models import MODELS as SMALL
from tests.runtime.models import Model

T = torch.Tensor
LENGTH = 8
_DIMS: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip


class Block(nn.Module):
    """Attention that reshapes to sizes of the whole model, with dropout."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: T) -> T:
        rows, length, hidden = x.shape
        y = self.first(x)
        query, key, value = (
            own(y).view(rows, length, self.heads, hidden // self.heads).transpose(1, 2)
            for own in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).reshape(rows, length, hidden)))
        return x + self.dropout(self.down(F.gelu(self.up(self.second(x)))))


class Odd(nn.Module):
    """A vocabulary that no number of devices divides, learned positions, logits scaled in place."""

    def __init__(self, dropout: float = 0.0, vocabulary: int = 61) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, 32)
        self.places = nn.Parameter(torch.randn(1, LENGTH, 32))
        self.blocks = nn.ModuleList(Block(32, 4, dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, vocabulary)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids) + self.places
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        logits *= self.scale
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Chain(nn.Module):
    """No list of blocks; the output of a layer is changed in place; the loss is a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.middle, self.down = nn.Linear(12, 24), nn.Linear(24, 24), nn.Linear(24, 6)

    def forward(self, x: T, labels: T) -> T:
        x = self.up(x)
        x += 1.0
        x = self.middle(x.relu())
        x *= 2.0
        return F.cross_entropy(self.down(x).flatten(0, 1), labels.flatten(), reduction="sum")


class TwoLosses(Odd):
    """Cross-entropy and the squares of normalizers; a learned temperature in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.3))

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids) + self.places
        for block in self.blocks:
            x = block(x)
        logits = (self.head(self.norm(x)) * self.temperature).flatten(0, 1)
        squares = logits.logsumexp(-1).square().mean()
        return F.cross_entropy(logits, labels.flatten()) + 1e-2 * squares


def _text(sizes: Mapping[str, int], *, names: tuple[str, str], most: int) -> dict[str, T]:
    """Ids and labels; rows ignore different numbers of labels."""
    rows = sizes["batch"]
    ids = torch.randint(0, most, (rows, LENGTH))
    kept = torch.arange(LENGTH) >= torch.arange(rows)[:, None] % 5
    return {names[0]: ids, names[1]: ids.where(kept, -100)}


def tokens(sizes: Mapping[str, int]) -> dict[str, T]:
    return _text(sizes, names=("input_ids", "labels"), most=64)


def odd_tokens(sizes: Mapping[str, int]) -> dict[str, T]:
    return _text(sizes, names=("ids", "labels"), most=61)


def all_labels(sizes: Mapping[str, int]) -> dict[str, T]:
    """No label is ignored."""
    ids = torch.randint(0, 61, (sizes["batch"], LENGTH))
    return {"ids": ids, "labels": ids.flip(1)}


def vectors(sizes: Mapping[str, int]) -> dict[str, T]:
    rows = sizes["batch"]
    x = torch.rand(rows, 3, 12, dtype=torch.float64)
    return {"x": x, "labels": torch.randint(0, 6, (rows, 3))}


def pictures(sizes: Mapping[str, int]) -> dict[str, T]:
    rows = sizes["batch"]
    images = torch.rand(rows, 3, 16, 16, dtype=torch.float64)
    return {"pixel_values": images, "labels": torch.randint(0, 10, (rows,))}


def of_transformers(name: str, config: transformers.PretrainedConfig) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        config.use_cache = False
        made = getattr(transformers, name)._from_config(config, attn_implementation="sdpa")
        module: nn.Module = made.train()
        return module

    return build


_VISION = transformers.ViTConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    image_size=16, patch_size=8, num_labels=10,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
_BERT = transformers.BertConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
_GPT2 = transformers.GPT2Config(
    vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4, attn_pdrop=0.0,
    embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_PHI = transformers.PhiConfig(
    **{**_DIMS, "num_key_value_heads": 4}, attention_dropout=0.0, embd_pdrop=0.0, resid_pdrop=0.0
)
_OPT = transformers.OPTConfig(
    vocab_size=64, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64, dropout=0.0, word_embed_proj_dim=32,
)  # fmt: skip
MODELS = {
    **SMALL,
    "transformers llama": Model(
        of_transformers("LlamaForCausalLM", transformers.LlamaConfig(**_DIMS)), tokens
    ),
    "transformers qwen3": Model(
        of_transformers("Qwen3ForCausalLM", transformers.Qwen3Config(**_DIMS, head_dim=8)), tokens
    ),
    "transformers mixtral": Model(
        of_transformers(
            "MixtralForCausalLM", transformers.MixtralConfig(**_DIMS, num_local_experts=4)
        ),
        tokens,
    ),
    "transformers gpt2": Model(of_transformers("GPT2LMHeadModel", _GPT2), tokens),
    "transformers phi": Model(of_transformers("PhiForCausalLM", _PHI), tokens),
    "transformers bert": Model(of_transformers("BertForMaskedLM", _BERT), tokens),
    "transformers vit": Model(of_transformers("ViTForImageClassification", _VISION), pictures),
    "transformers opt": Model(of_transformers("OPTForCausalLM", _OPT), tokens),
    "transformers cohere": Model(
        of_transformers("CohereForCausalLM", transformers.CohereConfig(**_DIMS)), tokens
    ),
    "two losses": Model(TwoLosses, all_labels),
    "odd": Model(Odd, odd_tokens),
    "large vocabulary": Model(lambda: Odd(vocabulary=8192), odd_tokens),
    "odd with dropout": Model(lambda: Odd(0.2), odd_tokens),
    "chain": Model(Chain, vectors),
}
