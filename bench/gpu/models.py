"""Models of the measured training steps: configurations of transformers, and one network.

The sizes are those of published models, except `mixtral-0.9b`, a Mixtral that fits one GPU with
its optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from meshwright.schema import Graph


@dataclass(frozen=True, slots=True)
class Model:
    """A model and the length of its sequences.

    settings: the `config.json` for transformers. factory: `module:function` of a recipe, where
    there is no configuration.
    """

    name: str
    seq: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    factory: str = ""

    def graph(self, batch: int, precision: str) -> Graph:
        """The captured graph. Precision: `autocast` (parameters in float32) or `bfloat16`."""
        from meshwright.capture import capture_factory, capture_hf

        options = {"autocast": "bfloat16"} if precision == "autocast" else {"dtype": precision}
        if self.factory:
            return capture_factory(self.factory, batch=batch, **options)
        return capture_hf(self.settings, batch=batch, seq=self.seq, name=self.name, **options)

    def module(self, precision: str) -> torch.nn.Module:
        """The module with random parameters, on the default device, in training mode."""
        import torch

        from meshwright.capture.hf import attention_of, build_config, head_of
        from meshwright.capture.import_by_name import named_function

        dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
        if self.factory:
            return named_function(self.factory)().module.to(dtype).train()
        config = build_config(self.settings)
        head = head_of(self.settings, config)
        made = head._from_config(config, dtype=dtype, attn_implementation=attention_of(head))
        return made.train()

    def batch(self, rows: int, device: str, precision: str) -> dict[str, torch.Tensor]:
        """A random batch."""
        import torch

        dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
        if self.seq is None:
            images = torch.randn(rows, 3, 224, 224, device=device, dtype=dtype)
            labels = torch.randint(1000, (rows,), device=device)
            return {"images" if self.factory else "pixel_values": images, "labels": labels}
        ids = torch.randint(self.settings["vocab_size"], (rows, self.seq), device=device)
        return {"input_ids": ids, "labels": ids.clone()}


LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
    "max_position_embeddings": 4096, "tie_word_embeddings": True, "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
}  # fmt: skip
GPT = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 1024, "n_layer": 24,
    "n_head": 16, "n_positions": 1024, "vocab_size": 50257,
}  # fmt: skip
BERT = {
    "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 1024,
    "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "vocab_size": 30522, "max_position_embeddings": 512,
}  # fmt: skip
VIT = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 1024,
    "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "image_size": 224, "patch_size": 16, "num_channels": 3, "num_labels": 1000,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 1024,
    "intermediate_size": 3584, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 64, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
}  # fmt: skip
T5 = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 768,
    "d_ff": 2048, "num_layers": 12, "num_heads": 12, "d_kv": 64, "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu", "n_positions": 512, "tie_word_embeddings": False,
}  # fmt: skip

MODELS = {
    model.name: model
    for model in (
        Model("llama-1b", 4096, LLAMA),
        Model("gpt2-medium", 1024, GPT),
        Model("bert-large", 512, BERT),
        Model("vit-l16", None, VIT),
        Model("mixtral-0.9b", 2048, MIXTRAL),
        Model("t5-base", 512, T5),
        Model("resnet50", factory="examples.models.resnet50:resnet50"),
        Model("llama-tiny", 512, {**LLAMA, "num_hidden_layers": 2, "vocab_size": 4096}),
        Model("mixtral-tiny", 512, {**MIXTRAL, "num_hidden_layers": 2, "vocab_size": 4096}),
    )
}
