"""Architectures of the transformers library that capture is tried on, small and in full.

A full one has the sizes of a public checkpoint, from its configuration: the library's defaults for
its model type where these describe one. No file is fetched. Published numbers of parameters, and
which configurations were compared with a copy of the checkpoint's, are in published_parameters.py.
"""

from __future__ import annotations

from tests.capture.architecture import (
    GPT,
    GROUPED,
    HEADS_OF_8,
    IMAGE,
    LATENT,
    PAIR,
    ROUTED,
    SCAN,
    TEXT,
    TOKENS,
    WINDOWED,
    Architecture,
)
from tests.capture.encoder_decoders import ENCODER_DECODERS
from tests.capture.text_decoders import TEXT_DECODERS
from tests.capture.text_encoders import TEXT_ENCODERS
from tests.capture.text_mixtures import TEXT_MIXTURES

ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture("encoder", "bert", TEXT, seq=512),
    Architecture(
        "encoder",
        "roberta",
        {**TEXT, "pad_token_id": 1},
        # FacebookAI/roberta-base
        {"max_position_embeddings": 514, "type_vocab_size": 1},
        seq=512,
    ),
    Architecture(
        "encoder",
        "deberta-v2",
        {
            **TEXT,
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
    Architecture("encoder", "electra", {**TEXT, "embedding_size": 32}, seq=512),
    Architecture(
        "encoder",
        "modernbert",
        {**TEXT, "local_attention": 16, "cls_token_id": 1, "sep_token_id": 2},
    ),
    Architecture("decoder", "gpt2", GPT),
    Architecture("decoder", "gptj", {**GPT, "rotary_dim": 4}),
    Architecture("decoder", "gpt_neox", TEXT),
    Architecture("decoder", "llama", GROUPED),
    Architecture("decoder", "mistral", HEADS_OF_8),
    Architecture(
        "decoder",
        "qwen2",
        GROUPED,
        # Qwen/Qwen2.5-7B
        {
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
        },
    ),
    Architecture(
        "decoder",
        "qwen3",
        HEADS_OF_8,
        # Qwen/Qwen3-8B
        {
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_key_value_heads": 8,
        },
    ),
    Architecture("decoder", "gemma2", WINDOWED),
    Architecture(
        "decoder",
        "gemma3_text",
        WINDOWED,
        # google/gemma-3-1b-pt
        {
            "hidden_size": 1152,
            "intermediate_size": 6912,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "vocab_size": 262144,
            "sliding_window": 512,
        },
    ),
    Architecture("decoder", "phi3", GROUPED),
    Architecture(
        "decoder",
        "falcon",
        {**TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
    Architecture("decoder", "opt", {**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    Architecture(
        "decoder",
        "bloom",
        {**TOKENS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        # published: bigscience/bloom-7b1; the defaults of the library are a toy
        {"hidden_size": 4096, "n_layer": 30, "n_head": 32},
    ),
    Architecture("decoder", "stablelm", GROUPED),
    # allenai/OLMo-2-1124-7B
    Architecture("decoder", "olmo2", TEXT, {"vocab_size": 100352}),
    Architecture("decoder", "cohere", TEXT),
    Architecture("decoder", "glm", HEADS_OF_8),
    Architecture("decoder", "starcoder2", GROUPED),
    Architecture(
        "encoder-decoder",
        "t5",
        {**TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        seq=512,
    ),
    Architecture("encoder-decoder", "bart", {**PAIR, "max_position_embeddings": 64}),
    Architecture(
        "mixture",
        "mixtral",
        {**GROUPED, "num_local_experts": 4},
    ),
    Architecture(
        "mixture",
        "qwen2_moe",
        {**GROUPED, **ROUTED, "shared_expert_intermediate_size": 16},
        # four of sixty experts take a fifteenth of the tokens each
        seq=960,
    ),
    Architecture(
        "mixture",
        "qwen3_moe",
        {**HEADS_OF_8, **ROUTED},
        # Qwen/Qwen3-30B-A3B
        {"num_hidden_layers": 48, "head_dim": 128},
    ),
    Architecture(
        "mixture",
        "deepseek_v3",
        LATENT,
    ),
    Architecture(
        "mixture",
        "gpt_oss",
        {
            **WINDOWED,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
    ),
    Architecture("vision", "vit", IMAGE),
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
    Architecture("vision", "dinov2", {**IMAGE, "mlp_ratio": 2}),
    Architecture(
        "vision", "resnet", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}
    ),
    Architecture(
        "vision and text",
        "clip",
        {"projection_dim": 16, "text_config": TEXT, "vision_config": IMAGE},
        seq=77,
    ),
    Architecture(
        "vision and text",
        "siglip",
        {"text_config": {**TEXT, "projection_size": 32}, "vision_config": IMAGE},
        seq=64,
    ),
    Architecture(
        "speech",
        "whisper",
        {**PAIR, "num_mel_bins": 8, "max_source_positions": 50, "max_target_positions": 64},
        seq=448,
    ),
    Architecture(
        "speech",
        "wav2vec2",
        {
            **TEXT,
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
    # state-spaces/mamba-2.8b-hf
    Architecture(
        "state-space",
        "mamba",
        SCAN,
        {"hidden_size": 2560, "num_hidden_layers": 64, "tie_word_embeddings": True},
    ),
    Architecture(
        "state-space",
        "mamba2",
        {**SCAN, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
    ),
    *TEXT_DECODERS,
    *TEXT_MIXTURES,
    *TEXT_ENCODERS,
    *ENCODER_DECODERS,
)

# like those of the table, and tried when small only
OTHERS: tuple[Architecture, ...] = (
    Architecture(
        "mixture",
        "llama4_text",
        {
            **HEADS_OF_8,
            "intermediate_size_mlp": 48,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 1,
            "attention_chunk_size": 16,
        },
    ),
)
