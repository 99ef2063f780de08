"""One architecture of the transformers library, and fields that small configurations share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """tiny: fields of a configuration that builds in a second. full: what the defaults lack.

    name: of the checkpoint, by default the model type. seq: the sequence of the full one.
    """

    family: str
    model_type: str
    tiny: Mapping[str, Any]
    full: Mapping[str, Any] = field(default_factory=dict)
    head: str | None = None
    seq: int = 1024
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.model_type)

    @property
    def small(self) -> dict[str, Any]:
        """The configuration that tests run."""
        return self._settings(self.tiny)

    @property
    def whole(self) -> dict[str, Any]:
        """The configuration of the table in docs/reference/architectures.md."""
        return self._settings(self.full)

    def _settings(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        heads = {} if self.head is None else {"architectures": [self.head]}
        return {"model_type": self.model_type, **heads, **fields}


TOKENS = {"vocab_size": 97, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TEXT = {
    **TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = {**TEXT, "num_key_value_heads": 2}
HEADS_OF_8 = {**GROUPED, "head_dim": 8}
WINDOWED = {**HEADS_OF_8, "sliding_window": 16}
GPT = {**TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
PAIR = {
    **TOKENS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 1,
}
IMAGE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
SCAN = {**TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
ROUTED = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
GROUPS_OF_EXPERTS = {
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
LATENT = {
    **TEXT,
    **GROUPS_OF_EXPERTS,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
