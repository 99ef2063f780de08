"""Decoders of text in the table of architectures, besides those of architectures.py."""

from __future__ import annotations

from tests.capture.architecture import (
    GPT,
    GROUPED,
    HEADS_OF_8,
    TEXT,
    TOKENS,
    WINDOWED,
    Architecture,
)

TEXT_DECODERS: tuple[Architecture, ...] = (
    Architecture("decoder", "gemma", HEADS_OF_8),
    Architecture(
        "decoder",
        "olmo",
        TEXT,
        {"max_position_embeddings": 2048},
    ),
    Architecture(
        "decoder",
        "olmo3",
        {**TEXT, "sliding_window": 16},
        {"vocab_size": 100278, "max_position_embeddings": 65536, "sliding_window": 4096},
    ),
    Architecture(
        "decoder",
        "cohere2",
        WINDOWED,
        # CohereLabs/c4ai-command-r7b-12-2024
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 256000,
            "sliding_window": 4096,
        },
    ),
    Architecture("decoder", "glm4", HEADS_OF_8),
    Architecture(
        "decoder",
        "nemotron",
        GROUPED,
        # Nemotron-4 15B Technical Report, table 1
        {
            "hidden_size": 6144,
            "intermediate_size": 24576,
            "num_hidden_layers": 32,
            "num_attention_heads": 48,
            "num_key_value_heads": 8,
            "vocab_size": 256000,
        },
    ),
    Architecture(
        "decoder",
        "granite",
        GROUPED,
        # ibm-granite/granite-3.1-8b-base
        {
            "hidden_size": 4096,
            "intermediate_size": 12800,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 49152,
            "tie_word_embeddings": True,
        },
    ),
    Architecture(
        "decoder",
        "hunyuan_v1_dense",
        HEADS_OF_8,
        # tencent/Hunyuan-7B-Instruct
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 128167,
            "tie_word_embeddings": True,
        },
    ),
    Architecture("decoder", "ernie4_5", HEADS_OF_8),
    Architecture(
        "decoder",
        "exaone4",
        {**GROUPED, "sliding_window": 16},
        # LGAI-EXAONE/EXAONE-4.0-32B
        {
            "hidden_size": 5120,
            "intermediate_size": 27392,
            "num_hidden_layers": 64,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "vocab_size": 102400,
            "sliding_window": 4096,
        },
    ),
    Architecture(
        "decoder",
        "seed_oss",
        HEADS_OF_8,
        # ByteDance-Seed/Seed-OSS-36B-Base
        {
            "hidden_size": 5120,
            "intermediate_size": 27648,
            "num_hidden_layers": 64,
            "num_attention_heads": 80,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 155136,
        },
    ),
    Architecture(
        "decoder",
        "apertus",
        GROUPED,
        # swiss-ai/Apertus-8B-2509
        {
            "hidden_size": 4096,
            "intermediate_size": 21504,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 131072,
        },
    ),
    Architecture("decoder", "smollm3", GROUPED),
    Architecture(
        "decoder",
        "bitnet",
        GROUPED,
        # microsoft/bitnet-b1.58-2B-4T
        {
            "hidden_size": 2560,
            "intermediate_size": 6912,
            "num_hidden_layers": 30,
            "num_attention_heads": 20,
            "num_key_value_heads": 5,
            "vocab_size": 128256,
            "tie_word_embeddings": True,
        },
    ),
    Architecture("decoder", "helium", HEADS_OF_8),
    Architecture("decoder", "phi", TEXT),
    Architecture("decoder", "persimmon", TEXT),
    Architecture(
        "decoder",
        "minicpm3",
        {
            **TEXT,
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
        },
    ),
    Architecture(
        "decoder",
        "gpt_neo",
        {
            **TOKENS,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 16,
            "max_position_embeddings": 64,
        },
    ),
    Architecture(
        "decoder",
        "gpt_bigcode",
        {**GPT, "multi_query": True},
        # bigcode/starcoder
        {
            "n_embd": 6144,
            "n_inner": 24576,
            "n_layer": 40,
            "n_head": 48,
            "n_positions": 8192,
            "vocab_size": 49152,
        },
    ),
    Architecture("decoder", "openai-gpt", GPT, seq=512),
    Architecture(
        "decoder",
        "ctrl",
        {**GPT, "dff": 48},
        # salesforce/ctrl
        seq=256,
    ),
    Architecture("decoder", "biogpt", TEXT),
    Architecture(
        "decoder",
        "xglm",
        {**TOKENS, "d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4},
        {"max_position_embeddings": 2048},
    ),
)
