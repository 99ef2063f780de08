"""Every spelling of attention is captured as attention, and trains the same as its graph."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pytest
import torch
from torch import nn
from torch.nn.attention import flex_attention

from meshwright.schema import Graph
from tests.capture.passes.spellings import HEADS, HIDDEN, SPELLINGS, WIDTH, Spelling
from tests.capture.training import check_data_parallel, check_training

T = torch.Tensor
WRITTEN_OUT = {"scores times a mask"}  # the mask is a factor, which may have any value
PLANNED = (
    "bloom",
    "deberta",
    "fairseq with the sequence first",
    "flex documents",
    "grouped by einsum",
    "multihead attention with masks",
    "swin",
    "window both ways",
    "window and gaps",
)
COUNTS = {"decoder layer": 2, "encoder of layers": 2}


class Attending(nn.Module):
    """A loss of one spelling, with the parameters that its spelling uses."""

    def __init__(self, function: Spelling) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.others = list(inspect.signature(function).parameters)[2:]
        self.query, self.key, self.value = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        source = inspect.getsource(function)
        for name, layer in self.layers().items():
            if f"m.{name}" in source:
                setattr(self, name, layer)

    @staticmethod
    def layers() -> Mapping[str, nn.Module | nn.Parameter]:
        sizes = {"dropout": 0.0, "dim_feedforward": 20, "batch_first": True}
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, **sizes)
        return {
            "sinks": nn.Parameter(torch.randn(HEADS)),
            "buckets": nn.Embedding(15, HEADS),
            "patches": nn.Linear(HIDDEN, 10 * HIDDEN),
            "relative": nn.Parameter(torch.randn(9, HEADS)),
            "positions": nn.Parameter(torch.randn(15, HIDDEN)),
            "multihead": nn.MultiheadAttention(HIDDEN, HEADS, batch_first=True),
            "sequence_first": nn.MultiheadAttention(HIDDEN, HEADS),
            "encoder": layer,
            "encoders": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            "decoder": nn.TransformerDecoderLayer(HIDDEN, HEADS, **sizes),
        }

    def inputs(self, sizes: Mapping[str, int]) -> dict[str, T]:
        batch, seq = sizes["batch"], sizes["seq"]
        others = {
            # the first key counts for every query
            "padding": torch.arange(seq)[None] < torch.randint(1, seq, (batch, 1)),
            "gaps": torch.rand(batch, seq).round().bool() | (torch.arange(seq) % 2 == 0),
            "documents": torch.randint(0, 2, (batch, seq)).cumsum(-1),
            "memory": torch.randn(batch, 8, HIDDEN),
        }
        return {
            "x": torch.randn(batch, seq, HIDDEN),
            **{name: others[name] for name in self.others},
        }

    def qkv(self, x: T, memory: T | None = None) -> tuple[T, T, T]:
        sources = (x, x if memory is None else memory, x if memory is None else memory)
        layers = (self.query, self.key, self.value)
        return tuple(
            layer(source).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
            for layer, source in zip(layers, sources, strict=True)
        )

    def forward(self, **inputs: T) -> T:
        return self.function(self, **inputs).square().mean()


def over_positions(graph: Graph) -> list[str]:
    """Products and softmaxes over positions x positions."""
    sizes = {tensor.name: tensor.shape for tensor in graph.tensors}
    return [
        op.name
        for op in graph.ops
        if op.kind in ("matmul", "softmax", "log_softmax")
        and sum("seq" in str(size) for name in op.outputs for size in sizes[name][-2:]) > 1
    ]


@pytest.fixture(autouse=True)
def flex_attention_on_cpu(monkeypatch):
    """PyTorch's uncompiled flex_attention, with a backward pass."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(SPELLINGS.keys() - WRITTEN_OUT))
def test_a_spelling_is_attention_and_trains_the_same(name):
    module = Attending(SPELLINGS[name])
    graph = check_training(module, module.inputs)
    kinds = [op.kind for op in graph.ops]
    assert [kind for kind in kinds if "." in kind] == []
    assert kinds.count("attention") == COUNTS.get(name, 1), kinds
    assert over_positions(graph) == []
    if name in PLANNED:
        check_data_parallel(graph)


@pytest.mark.parametrize("name", sorted(WRITTEN_OUT))
def test_another_spelling_stays_written_out_and_trains_the_same(name):
    module = Attending(SPELLINGS[name])
    graph = check_training(module, module.inputs)
    assert "attention" not in [op.kind for op in graph.ops]


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("window both ways", {"causal": False, "window": 4}),
        ("window and gaps", {"causal": True, "window": 4}),
        ("causal and padding", {"causal": True}),
        ("bloom", {"causal": True}),
        ("t5", {"causal": True}),
        ("multihead attention with masks", {"causal": True}),
        ("flex window", {"causal": True, "window": 4}),
        ("flex documents", {"causal": True}),
        ("flex soft cap", {"causal": False, "softcap": 5.0}),
        ("scaled queries", {"causal": False, "scale": WIDTH**-0.5}),
    ],
)
def test_positions_in_masks_become_attributes(name, attrs):
    module = Attending(SPELLINGS[name])
    graph = check_training(module, module.inputs)
    (op,) = (op for op in graph.ops if op.kind == "attention")
    assert {key: op.attrs[key] for key in attrs} == attrs
    masks = [graph.tensor(name).shape for name in op.inputs[3:]]
    is_by_document = name == "flex documents"
    is_learned = name == "t5"
    assert all(mask[-2] == 1 for mask in masks) or is_by_document or is_learned


def test_products_that_mix_heads_are_no_attention(kinds):
    def function(q, k, v, mix):
        weights = (q @ k.mT).softmax(-1)
        return torch.einsum("bhst,hg->bgst", weights, mix) @ v

    made = kinds(function, *(torch.randn(2, HEADS, 5, WIDTH) for _ in "qkv"), torch.randn(4, 4))
    assert "attention" not in made


def test_keys_of_another_batch_are_no_attention(kinds):
    def function(q, k, v):
        return (q @ k[:1].mT).softmax(-1) @ v

    assert "attention" not in kinds(function, *(torch.randn(2, HEADS, 5, WIDTH) for _ in "qkv"))
