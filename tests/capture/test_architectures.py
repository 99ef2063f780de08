"""The architectures of docs/reference/architectures.md train the same as their graphs, when small.

`make test` takes a few of them and a fifth of the others (tests/capture/rotation.py).
"""

import pytest
import torch

from meshwright.capture import capture_hf
from meshwright.capture.hf_inputs import HeadInputs
from tests.capture.architectures import ARCHITECTURES, OTHERS
from tests.capture.rotation import rotating
from tests.capture.small_transformers import input_values, small_model
from tests.capture.training import assert_trains_the_same

BATCH, SEQ = 3, 12
# one or two of each family are always tried; of the others a fifth
ALWAYS = {"bert", "gpt2", "llama", "mixtral", "bart", "t5", "vit", "resnet", "mamba", "clip"}
torch.set_num_threads(1)


def test_there_are_enough_of_every_family():
    assert len(ARCHITECTURES) >= 90
    assert len({a.name for a in ARCHITECTURES}) == len(ARCHITECTURES)


def of_today():
    """Those that are always tried, and of the others those of this fifth; the rest are long."""
    every = (*ARCHITECTURES, *OTHERS)
    for architecture in every:
        if architecture.name in ALWAYS:
            yield pytest.param(architecture, id=architecture.name)
    others = [architecture for architecture in every if architecture.name not in ALWAYS]
    yield from rotating(others, lambda architecture: architecture.name)


@pytest.mark.parametrize("architecture", list(of_today()))
def test_an_architecture_trains_the_same_as_its_graph(architecture, run_graph):
    settings = {**architecture.small, "dtype": "float32"}
    seq = 400 if architecture.model_type == "wav2vec2" else SEQ
    graph = capture_hf(settings, batch=64, seq=seq)
    assert [note for note in graph.notes if "reads no config key" not in note] == []
    model = small_model(settings)
    feed = HeadInputs(type(model), model.config, torch.float32, batch=BATCH, seq=seq)
    inputs = input_values(feed, batch=BATCH, seq=seq)
    loss = model(**inputs).loss
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    sizes = {name: BATCH if name == "batch" else SEQ for name in graph.symbols}
    made = run_graph(graph, model, tensors, symbols=sizes)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert_trains_the_same(parameters, loss, made[graph.loss])
