"""Architectures of the table in docs/architectures.md train the same as their graphs, when small.

`make test` takes those that it always took and a fifth of the others, by the day; its number is in
the name of the test, and ARCHITECTURES_FIFTH sets it. `make test-long` takes all.
"""

import os
from datetime import date

import pytest
import torch

from meshwright.capture import capture_hf, hf
from meshwright.capture.hf_inputs import HeadInputs
from tests.capture.architectures import ARCHITECTURES, OTHERS
from tests.capture.encoder_decoders import ENCODER_DECODERS
from tests.capture.text_decoders import TEXT_DECODERS
from tests.capture.text_encoders import TEXT_ENCODERS
from tests.capture.text_mixtures import TEXT_MIXTURES

BATCH, SEQ = 3, 12
FIFTHS = 5
FIFTH = int(os.environ.get("ARCHITECTURES_FIFTH", date.today().toordinal() % FIFTHS))
ROTATING = (*TEXT_DECODERS, *TEXT_MIXTURES, *TEXT_ENCODERS, *ENCODER_DECODERS)
torch.set_num_threads(1)


def test_there_are_enough_of_every_family():
    assert len(ARCHITECTURES) >= 90
    assert len({a.name for a in ARCHITECTURES}) == len(ARCHITECTURES)


def of_today():
    """All that are always tried, and of the others those of this fifth; the rest are long."""
    for architecture in (*ARCHITECTURES, *OTHERS):
        if architecture not in ROTATING:
            yield pytest.param(architecture, id=architecture.name)
    for place, architecture in enumerate(ROTATING):
        fifth = place % FIFTHS
        marks = [] if fifth == FIFTH else [pytest.mark.long]
        yield pytest.param(architecture, id=f"{architecture.name}-fifth-{fifth}", marks=marks)


def real_model(graph_settings):
    torch.manual_seed(0)
    built = hf.build_config(graph_settings)
    head = hf.head_of(graph_settings, built)
    model = head._from_config(built, dtype=torch.float32, attn_implementation=hf.attention_of(head))
    # tables and biases start at zero, which would hide a wrong gradient
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def made_up(model, batch, seq):
    """Values of the inputs that capture feeds, at small sizes."""
    feed = HeadInputs(type(model), model.config, torch.float32, batch=batch, seq=seq)
    sizes = {"batch": batch, "seq": seq}
    made = {}
    for name, tensor in feed(sizes).items():
        if not isinstance(tensor, torch.Tensor):
            made[name] = tensor
        elif tensor.is_floating_point():
            made[name] = torch.randn(tensor.shape)
        else:
            # the row of the padding token has no gradient in torch
            low, high = (0, 2) if tensor.dim() == 1 or "type" in name else (3, 90)
            made[name] = torch.randint(low, high, tensor.shape)
    return made


@pytest.mark.parametrize("architecture", list(of_today()))
def test_an_architecture_trains_the_same_as_its_graph(architecture, run_graph):
    settings = {**architecture.small, "dtype": "float32"}
    seq = 400 if architecture.model_type == "wav2vec2" else SEQ
    graph = capture_hf(settings, batch=64, seq=seq)
    assert [note for note in graph.notes if "reads no config key" not in note] == []
    model = real_model(settings)
    inputs = made_up(model, BATCH, seq)
    loss = model(**inputs).loss
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    sizes = {name: BATCH if name == "batch" else SEQ for name in graph.symbols}
    # four times the slots of an even split: an expert can take every token of a sequence
    made = run_graph(graph, model, tensors, symbols=sizes, capacity_factor=4.0)
    torch.testing.assert_close(made[graph.loss], loss, rtol=1e-5, atol=1e-6)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    options = {"allow_unused": True, "materialize_grads": True}
    wanted = torch.autograd.grad(loss, list(parameters.values()), **options)
    found = torch.autograd.grad(made[graph.loss], list(parameters.values()), **options)
    for name, one, other in zip(parameters, wanted, found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=2e-5, msg=lambda m, n=name: n + m)
