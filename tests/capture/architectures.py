"""Architectures of the transformers library that capture is tried on, small and in full.

A full one is the library's own defaults for its model type: no file is fetched, and what is named
is the checkpoint that those defaults describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """tiny: fields of a configuration that builds in a second. full: what the defaults lack.

    layers: how many layers the full one has, where eight devices cannot train all of them.
    """

    family: str
    model_type: str
    tiny: Mapping[str, Any]
    full: Mapping[str, Any] = field(default_factory=dict)
    head: str | None = None
    seq: int = 1024
    layers: str = "all"

    @property
    def small(self) -> dict[str, Any]:
        """The configuration that tests run."""
        return self._settings(self.tiny)

    @property
    def whole(self) -> dict[str, Any]:
        """The configuration of the table in docs/capture.md."""
        return self._settings(self.full)

    def _settings(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        heads = {} if self.head is None else {"architectures": [self.head]}
        return {"model_type": self.model_type, **heads, **fields}


_TOKENS = {"vocab_size": 97, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_TEXT = {
    **_TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_HEADS_OF_8 = {**_GROUPED, "head_dim": 8}
_WINDOWED = {**_HEADS_OF_8, "sliding_window": 16}
_GPT = {**_TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_PAIR = {
    **_TOKENS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 1,
}
_IMAGE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
_SCAN = {**_TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
_ROUTED = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_GROUPS_OF_EXPERTS = {
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
_LATENT = {
    **_TEXT,
    **_GROUPS_OF_EXPERTS,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}

ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture("encoder", "bert", _TEXT, seq=512),
    Architecture("encoder", "roberta", {**_TEXT, "pad_token_id": 1}, seq=512),
    Architecture(
        "encoder",
        "deberta-v2",
        {
            **_TEXT,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 16,
            "share_att_key": True,
        },
        {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 256,
            "share_att_key": True,
        },
        seq=512,
    ),
    Architecture("encoder", "electra", {**_TEXT, "embedding_size": 32}, seq=512),
    Architecture(
        "encoder",
        "modernbert",
        {**_TEXT, "local_attention": 16, "cls_token_id": 1, "sep_token_id": 2},
    ),
    Architecture("decoder", "gpt2", _GPT),
    Architecture("decoder", "gptj", {**_GPT, "rotary_dim": 4}),
    Architecture("decoder", "gpt_neox", _TEXT, {"num_hidden_layers": 22}, layers="22 of 44"),
    Architecture("decoder", "llama", _GROUPED),
    Architecture("decoder", "mistral", _HEADS_OF_8),
    Architecture("decoder", "qwen2", _GROUPED),
    Architecture("decoder", "qwen3", _HEADS_OF_8),
    Architecture("decoder", "gemma2", _WINDOWED),
    Architecture("decoder", "gemma3_text", _WINDOWED),
    Architecture("decoder", "phi3", _GROUPED),
    Architecture(
        "decoder",
        "falcon",
        {**_TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
    Architecture("decoder", "opt", {**_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    Architecture(
        "decoder",
        "bloom",
        {**_TOKENS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        # published: bigscience/bloom-7b1; the defaults of the library are a toy
        {"hidden_size": 4096, "n_layer": 30, "n_head": 32},
    ),
    Architecture("decoder", "stablelm", _GROUPED),
    Architecture("decoder", "olmo2", _TEXT),
    Architecture("decoder", "cohere", _TEXT, {"num_hidden_layers": 10}, layers="10 of 40"),
    Architecture("decoder", "glm", _HEADS_OF_8),
    Architecture("decoder", "starcoder2", _GROUPED),
    Architecture(
        "encoder-decoder",
        "t5",
        {**_TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        seq=512,
    ),
    Architecture("encoder-decoder", "bart", {**_PAIR, "max_position_embeddings": 64}),
    Architecture(
        "mixture",
        "mixtral",
        {**_GROUPED, "num_local_experts": 4},
        {"num_hidden_layers": 8},
        layers="8 of 32",
    ),
    Architecture(
        "mixture",
        "qwen2_moe",
        {**_GROUPED, **_ROUTED, "shared_expert_intermediate_size": 16},
        # four of sixty experts take a fifteenth of the tokens each
        seq=960,
    ),
    Architecture("mixture", "qwen3_moe", {**_HEADS_OF_8, **_ROUTED}),
    Architecture(
        "mixture",
        "deepseek_v3",
        _LATENT,
        {"num_hidden_layers": 4},
        layers="4 of 61",
    ),
    Architecture(
        "mixture",
        "gpt_oss",
        {
            **_WINDOWED,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        {"num_hidden_layers": 4},
        layers="4 of 36",
    ),
    Architecture("vision", "vit", _IMAGE),
    Architecture(
        "vision",
        "swin",
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
        },
    ),
    Architecture(
        "vision",
        "convnext",
        {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 2, 1], "image_size": 64},
    ),
    Architecture("vision", "dinov2", {**_IMAGE, "mlp_ratio": 2}),
    Architecture(
        "vision", "resnet", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}
    ),
    Architecture(
        "vision and text",
        "clip",
        {"projection_dim": 16, "text_config": _TEXT, "vision_config": _IMAGE},
        seq=77,
    ),
    Architecture(
        "vision and text",
        "siglip",
        {"text_config": {**_TEXT, "projection_size": 32}, "vision_config": _IMAGE},
        seq=64,
    ),
    Architecture(
        "speech",
        "whisper",
        {**_PAIR, "num_mel_bins": 8, "max_source_positions": 50, "max_target_positions": 64},
        seq=448,
    ),
    Architecture(
        "speech",
        "wav2vec2",
        {
            **_TEXT,
            "conv_dim": [16, 16],
            "conv_kernel": [3, 3],
            "conv_stride": [2, 2],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "classifier_proj_size": 16,
        },
        seq=160_000,
    ),
    Architecture("state-space", "mamba", _SCAN),
    Architecture(
        "state-space",
        "mamba2",
        {**_SCAN, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
    ),
)

# like those of the table, and tried when small only
OTHERS: tuple[Architecture, ...] = (
    Architecture("mixture", "deepseek_v2", {**_LATENT, "topk_method": "greedy"}),
    Architecture("mixture", "glm4_moe", {**_HEADS_OF_8, **_GROUPS_OF_EXPERTS}),
    Architecture(
        "mixture",
        "llama4_text",
        {
            **_HEADS_OF_8,
            "intermediate_size_mlp": 48,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 1,
            "attention_chunk_size": 16,
        },
    ),
)
