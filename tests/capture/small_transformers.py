"""Small models of transformers with weights, and values of the inputs that capture feeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from meshwright.capture import hf
from meshwright.capture.hf_inputs import HeadInputs


def small_model(settings: Mapping[str, Any]) -> Any:
    """The model of a configuration in float32, in training mode."""
    torch.manual_seed(0)
    built = hf.build_config(settings)
    head = hf.head_of(settings, built)
    model = head._from_config(built, dtype=torch.float32, attn_implementation=hf.attention_of(head))
    # tables and biases start at zero, which would hide a wrong gradient
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def input_values(inputs: HeadInputs, *, batch: int, seq: int) -> dict[str, Any]:
    """Random values of the inputs."""
    made: dict[str, Any] = {}
    for name, tensor in inputs({"batch": batch, "seq": seq}).items():
        if not isinstance(tensor, torch.Tensor):
            made[name] = tensor
        elif tensor.is_floating_point():
            made[name] = torch.randn(tensor.shape)
        else:
            # the row of the padding token has no gradient in torch
            low, high = (0, 2) if tensor.dim() == 1 or "type" in name else (3, 90)
            made[name] = torch.randint(low, high, tensor.shape)
    return made
