"""GELU written out."""

import math

import torch


def tanh_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3.0))))


def erf_gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def test_both_written_forms_are_recognised(kinds):
    assert kinds(tanh_gelu, torch.randn(4, 4)) == ["gelu"]
    assert kinds(erf_gelu, torch.randn(4, 4)) == ["gelu"]


def test_other_numbers_are_left_alone(kinds):
    other = lambda x: x * 0.5 * (1.0 + torch.erf(x / 2.0))  # noqa: E731
    assert "gelu" not in kinds(other, torch.randn(4, 4))
    bent = lambda x: 0.5 * x * (1.0 + torch.tanh(x + 0.044715 * x.pow(3.0)))  # noqa: E731
    assert "gelu" not in kinds(bent, torch.randn(4, 4))


def test_a_gate_on_another_tensor_is_left_alone(kinds):
    other = lambda x, y: y * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))  # noqa: E731
    assert "gelu" not in kinds(other, torch.randn(4, 4), torch.randn(4, 4))
