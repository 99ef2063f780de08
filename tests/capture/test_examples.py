"""The stored graphs are what a capture gives, and are the models that they are named after."""

import math

import pytest
import transformers

from examples.catalogue import EXAMPLES
from meshwright.capture.interpreter import KERNELS

BY_NAME = {example.name: example for example in EXAMPLES}
CAPTURED_WITH = "5.23.0"

# parameters in billions, as published or counted from the published sizes
BILLIONS = {
    "llama3-8b": 8.03,
    "llama3-70b": 70.55,
    "llama3-405b": 405.85,
    "gpt3-175b": 174.6,
    "bert-large": 0.336,
    "mixtral-8x7b": 46.70,
    "vit-l16": 0.3043,
    "resnet50": 0.02556,
    "unet3d": 0.0226,
    "wide-deep": 6.503,
    "face-head": 5.145,
}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_stored_graph_is_the_model_of_its_name(name):
    example = BY_NAME[name]
    graph = example.load()
    assert graph.name == name
    assert graph.symbols["batch"] == example.batch
    assert graph.symbols.get("seq") == example.seq
    assert [note for note in graph.notes if "the loss is in bfloat16" not in note] == []
    assert graph.loss is not None
    shapes = graph.instantiate({})
    count = sum(math.prod(shapes[t.name]) for t in graph.tensors if t.role == "parameter")
    assert count / 1e9 == pytest.approx(BILLIONS[name], rel=2e-3)
    assert {op.kind for op in graph.ops} <= set(KERNELS)


@pytest.mark.rotating
@pytest.mark.parametrize("name", ["resnet50", "unet3d", "wide-deep", "face-head", "vit-l16"])
def test_a_fresh_capture_equals_the_stored_graph(name, tmp_path, monkeypatch):
    example = BY_NAME[name]
    if example.source.endswith(".json") and transformers.__version__ != CAPTURED_WITH:
        pytest.skip(f"the stored graph is of transformers {CAPTURED_WITH}")
    fresh = example.capture()
    assert fresh.id == example.load().id
    stored = example.path.read_bytes()
    monkeypatch.setattr("examples.catalogue.HERE", tmp_path)
    (tmp_path / "graphs").mkdir()
    example.store(fresh)
    assert example.path.read_bytes() == stored
