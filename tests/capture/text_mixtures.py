"""Mixtures of experts in the table of architectures, besides those of architectures.py."""

from __future__ import annotations

from tests.capture.architecture import (
    GROUPED,
    GROUPS_OF_EXPERTS,
    HEADS_OF_8,
    LATENT,
    ROUTED,
    TEXT,
    Architecture,
)

TEXT_MIXTURES: tuple[Architecture, ...] = (
    Architecture(
        "mixture",
        "deepseek_v2",
        {**LATENT, "topk_method": "greedy"},
        # deepseek-ai/DeepSeek-V2-Lite
        {
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "q_lora_rank": None,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "topk_method": "greedy",
            "vocab_size": 102400,
        },
    ),
    Architecture(
        "mixture",
        "deepseek_v3",
        LATENT,
        # moonshotai/Kimi-K2-Base
        {
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
            "n_routed_experts": 384,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "vocab_size": 163840,
        },
        name="kimi-k2",
    ),
    Architecture(
        "mixture",
        "glm4_moe",
        {**HEADS_OF_8, **GROUPS_OF_EXPERTS},
        # zai-org/GLM-4.5-Air
        {"head_dim": 128, "attention_bias": True},
    ),
    Architecture("mixture", "glm4_moe_lite", LATENT),
    Architecture(
        "mixture",
        "dots1",
        {**HEADS_OF_8, **GROUPS_OF_EXPERTS, "n_shared_experts": 1},
        # rednote-hilab/dots.llm1.base
        {
            "hidden_size": 4096,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 62,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "n_routed_experts": 128,
            "n_shared_experts": 2,
            "n_group": 1,
            "topk_group": 1,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "vocab_size": 152064,
        },
    ),
    Architecture(
        "mixture",
        "ernie4_5_moe",
        {
            **GROUPED,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 16,
            "moe_num_shared_experts": 1,
        },
    ),
    Architecture(
        "mixture",
        "hunyuan_v1_moe",
        {**HEADS_OF_8, "num_experts": 4, "moe_topk": 2},
        # tencent/Hunyuan-A13B-Instruct
        {
            "hidden_size": 4096,
            "intermediate_size": 3072,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_experts": 64,
            "moe_topk": 8,
            "vocab_size": 128167,
            "tie_word_embeddings": True,
        },
    ),
    Architecture(
        "mixture",
        "olmoe",
        {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2},
        # allenai/OLMoE-1B-7B-0924
        {"intermediate_size": 1024},
    ),
    Architecture(
        "mixture",
        "granitemoe",
        {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
        # ibm-granite/granite-3.1-3b-a800m-base
        {
            "hidden_size": 1536,
            "intermediate_size": 512,
            "num_hidden_layers": 32,
            "num_attention_heads": 24,
            "num_key_value_heads": 8,
            "num_local_experts": 40,
            "num_experts_per_tok": 8,
            "vocab_size": 49152,
            "tie_word_embeddings": True,
        },
        # eight of forty experts take a fifth of the tokens each
        seq=1280,
    ),
    Architecture(
        "mixture",
        "minimax_m2",
        {**HEADS_OF_8, "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 4},
    ),
    Architecture(
        "mixture",
        "afmoe",
        {**HEADS_OF_8, **ROUTED, "num_dense_layers": 1, "sliding_window": 16},
    ),
    Architecture(
        "mixture",
        "aria_text",
        {**TEXT, "num_key_value_heads": 4, "moe_num_experts": 4, "moe_topk": 2},
    ),
)
