"""Linear attention and gated recurrences of transformers: one op each, which trains the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from meshwright.capture import capture_hf, interpret
from meshwright.plugins.planner import certificate_of, find_planner, find_verifier, preset
from tests.capture.small_transformers import small_model
from tests.capture.training import assert_trains_the_same
from tests.one_stage import one_stage_request

TEXT: Mapping[str, Any] = {
    "vocab_size": 97, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "dtype": "float32",
}  # fmt: skip
DELTA = {
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
ROUTED = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}  # fmt: skip
MODELS: Mapping[str, Mapping[str, Any]] = {
    "qwen3_next": {**TEXT, **DELTA, **ROUTED, "linear_num_key_heads": 2},
    "olmo_hybrid": {**TEXT, **DELTA, "linear_num_key_heads": 4},
    "rwkv": {**TEXT, "attention_hidden_size": 32, "context_length": 128},
    "recurrent_gemma": {**TEXT, "lru_width": 32, "attention_window_size": 16},
}
KINDS = {
    "qwen3_next": ("gated_delta_rule", 1),
    "olmo_hybrid": ("gated_delta_rule", 1),
    "rwkv": ("wkv", 2),
    "recurrent_gemma": ("linear_recurrence", 2),
}
ROWS, SEQ = 3, 12


@pytest.mark.rotating
@pytest.mark.parametrize("model_type", MODELS)
def test_a_model_trains_the_same_as_its_graph_and_its_plan_is_verified(model_type: str) -> None:
    torch.manual_seed(0)
    settings = {"model_type": model_type, **MODELS[model_type]}
    graph = capture_hf(settings, batch=64, seq=64)
    assert not any("loop" in note or "kind" in note for note in graph.notes)
    kind, count = KINDS[model_type]
    assert Counter(op.kind for op in graph.ops)[kind] == count

    model = small_model(settings)
    ids = torch.randint(3, 97, (ROWS, SEQ))
    values = {"input_ids": ids, "labels": ids}
    parameters = dict(model.named_parameters())
    loss = model(**values).loss
    made = interpret(
        graph,
        {**parameters, **dict(model.named_buffers()), **values},
        symbols={"batch": ROWS, "seq": SEQ},
    )[graph.loss]
    assert_trains_the_same(parameters, loss, made)

    request = one_stage_request(graph=graph, topology=preset("h100-1x8"))
    answer = find_planner()(request)
    assert answer.plan is not None
    assert certificate_of(find_verifier(), answer.plan, request).outcome == "verified"
