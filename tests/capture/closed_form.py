"""FLOPs of a training step of a transformer in closed form, from its modules and configuration.

    6 * active parameters * tokens + 6 * scores * (width of queries + width of values)

The active parameters are those of matrix products: every linear layer, and of the experts the
share that a token asks. The backward pass has twice the FLOPs of the forward pass. Scores are the
pairs of a query and a key that a layer computes: tokens * (seq + 1) / 2 for causal attention,
tokens * window for a window, tokens * seq for attention in both directions. Widths are those of all
heads together.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

_CHOICES = ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "num_selected_experts")
_LINEAR = (torch.nn.Linear, Conv1D, torch.nn.Conv1d)


def flops_in_closed_form(model: torch.nn.Module, *, batch: int, seq: int) -> float:
    """FLOPs of one step on `batch` sequences of `seq` tokens; both sides of a pair have as many."""
    tokens = batch * seq
    total = 6 * _active_parameters(model) * tokens
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        return total + _pair_attention(config, tokens, seq)
    width = _width(config)
    return total + sum(6 * tokens * keys * width for keys in _keys_of_layers(model, config, seq))


def _active_parameters(model: torch.nn.Module) -> float:
    config = model.config
    choices = next((c for name in _CHOICES if (c := getattr(config, name, None))), 1)
    choices = choices if isinstance(choices, int) else choices[0]
    ffn = getattr(config, "ffn_config", None)
    choices = getattr(ffn, "moe_top_k", choices)
    total = 0.0
    for module in model.modules():
        if isinstance(module, _LINEAR):
            total += module.weight.numel()
        else:
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.dim() == 3 and "bias" not in name:
                    total += parameter.numel() * choices / parameter.shape[0]
                elif parameter.dim() == 2 and _is_router(module, name):
                    total += parameter.numel()
    return total


def _is_router(module: torch.nn.Module, name: str) -> bool:
    """Whether a matrix outside of linear layers is a router's."""
    return name == "weight" and not isinstance(module, torch.nn.Embedding)


def _width(config: Any) -> int:
    """Query and value widths of all heads together."""
    heads = config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    if getattr(config, "kv_lora_rank", None):
        return heads * (config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim)
    return 2 * heads * head


def _keys_of_layers(model: torch.nn.Module, config: Any, seq: int) -> list[float]:
    """The mean number of keys of a query, layer by layer."""
    is_causal = "CausalLM" in type(model).__name__ or "LMHead" in type(model).__name__
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    window = getattr(config, "sliding_window", None)
    if not getattr(config, "layer_types", None) and window:
        kinds = ["sliding_attention"] * config.num_hidden_layers
    keys = []
    for kind in kinds:
        if not is_causal:
            keys.append(float(seq))
        elif kind == "sliding_attention" and window and window < seq:
            # the first `window` queries see fewer
            keys.append(window - window * (window - 1) / 2 / seq)
        elif kind.endswith("attention") and kind != "linear_attention":
            keys.append((seq + 1) / 2)
    return keys


def _pair_attention(config: Any, tokens: int, seq: int) -> float:
    """Attention of an encoder, of a decoder, and of the decoder to the encoder."""
    names = ("encoder_layers", "num_layers"), ("decoder_layers", "num_decoder_layers", "num_layers")
    encoder, decoder = (
        next(n for name in group if (n := getattr(config, name, None))) for group in names
    )
    heads = config.num_attention_heads
    width = 2 * heads * (getattr(config, "d_kv", None) or config.hidden_size // heads)
    keys = encoder * seq + decoder * ((seq + 1) / 2 + seq)
    return 6 * tokens * keys * width
