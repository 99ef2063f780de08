"""Small real models, and running their graphs on the weights that they have."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from meshwright.capture import capture_module, interpret
from meshwright.schema import Graph

torch.set_num_threads(1)

COMMON: dict[str, Any] = {
    "dtype": "float32",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
CONFIGS: Mapping[str, dict[str, Any]] = {
    "llama": {
        **COMMON,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_key_value_heads": 2,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "dtype": "float32",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "vocab_size": 97,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "activation_function": "gelu_new",
    },
    "bert": {**COMMON, "architectures": ["BertForPreTraining"], "model_type": "bert"},
    "masked-bert": {**COMMON, "architectures": ["BertForMaskedLM"], "model_type": "bert"},
    "mixtral": {
        **COMMON,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "vit": {
        **{key: COMMON[key] for key in COMMON if "token" not in key and "vocab" not in key},
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "image_size": 16,
        "patch_size": 4,
        "num_labels": 10,
    },
}


@pytest.fixture
def config() -> Callable[[str], dict[str, Any]]:
    """A tiny configuration by family, as `config.json` would hold it."""
    return lambda name: copy.deepcopy(CONFIGS[name])


@pytest.fixture
def run_graph() -> Callable[..., dict[str, torch.Tensor]]:
    """Interpret a graph on a module's own weights; sizes follow the inputs given."""

    def run(
        graph: Graph,
        module: torch.nn.Module,
        inputs: Mapping[str, torch.Tensor],
        **options: Any,
    ) -> dict[str, torch.Tensor]:
        values = {**dict(module.named_parameters()), **dict(module.named_buffers()), **inputs}
        return interpret(graph, values, **options)

    return run


@pytest.fixture
def check_capture() -> Callable[..., Graph]:
    """Capture a module as it is called, and compare the graph's outputs with the module's."""

    def check(module: torch.nn.Module, *inputs: torch.Tensor) -> Graph:
        named = {f"x{place}": tensor for place, tensor in enumerate(inputs)}
        wrapped = _Named(module)
        # in-place ops write to their arguments
        expected = wrapped(**{name: tensor.clone() for name, tensor in named.items()})
        graph = capture_module(
            wrapped,
            lambda _: {name: tensor.to("meta") for name, tensor in named.items()},
            symbols={},
            name="case",
        )
        values = {**dict(wrapped.named_parameters()), **dict(wrapped.named_buffers()), **named}
        made = interpret(graph, values)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        assert len(graph.outputs) == len(wanted)
        for name, tensor in zip(graph.outputs, wanted, strict=True):
            torch.testing.assert_close(made[name], tensor)
            assert tuple(graph.tensor(name).shape) == tuple(tensor.shape)
            assert graph.tensor(name).dtype == str(tensor.dtype).removeprefix("torch.")
        return graph

    return check


class _Named(torch.nn.Module):
    """Gives the inputs of any module the names x0, x1, ..."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.inner = module

    def forward(self, **inputs: torch.Tensor) -> Any:
        return self.inner(*inputs.values())
