"""Models for images, sound, and both with text train the same as their graphs, when small.

`make test` takes a fifth of them, by the day; the number of the fifth is in the name of the test.
"""

import os
from collections.abc import Iterator
from datetime import date

import pytest
import torch

from meshwright.capture import capture_hf, hf
from meshwright.capture.hf_inputs import HeadInputs
from tests.capture.architectures_other import OTHERS, TEXT, OtherArchitecture
from tests.capture.tiny_configs import tiny_config

BATCH = 3
FIFTHS = 5
FIFTH = int(os.environ.get("ARCHITECTURES_FIFTH", date.today().toordinal() % FIFTHS))
torch.set_num_threads(1)


def fifths() -> Iterator[object]:
    """All architectures; those outside of the day's fifth are long."""
    for place, architecture in enumerate(OTHERS):
        fifth = place % FIFTHS
        marks = [] if fifth == FIFTH else [pytest.mark.long]
        yield pytest.param(architecture, id=f"{architecture.model_type}-fifth-{fifth}", marks=marks)


def real_model(settings):
    torch.manual_seed(0)
    built = hf.build_config(settings)
    head = hf.head_of(settings, built)
    model = head._from_config(built, dtype=torch.float32, attn_implementation=hf.attention_of(head))
    # tables and biases start at zero, which would hide a wrong gradient
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def made_up(inputs: HeadInputs, seq: int) -> dict[str, object]:
    """Values of the inputs that capture feeds, with one image in every text."""
    made = {}
    for name, tensor in inputs({"batch": BATCH, "seq": seq}).items():
        if not isinstance(tensor, torch.Tensor):
            made[name] = tensor
        elif tensor.is_floating_point():
            made[name] = torch.randn(tensor.shape)
        else:
            # the row of the padding token has no gradient in torch
            low, high = (0, 2) if tensor.dim() == 1 or "type" in name else (3, 90)
            made[name] = torch.randint(low, high, tensor.shape)
    if inputs.media.tokens is not None:
        token, count = inputs.media.tokens
        made["input_ids"][:, 1 : 1 + count] = token
        if "token_type_ids" in made:
            made["token_type_ids"] = (made["input_ids"] == token).long()
    if "position_ids" in made:
        made["position_ids"] = torch.arange(seq).expand(3, BATCH, seq).contiguous()
    return made


def assert_trains_the_same(architecture: OtherArchitecture, run_graph) -> None:
    settings = {**architecture.small, "dtype": "float32"}
    graph = capture_hf(settings, batch=64, seq=architecture.seq)
    model = real_model(settings)
    inputs = HeadInputs(type(model), model.config, torch.float32, batch=BATCH, seq=architecture.seq)
    values = made_up(inputs, architecture.seq)
    grid = inputs.media.grid
    packed = {} if grid is None else {"image_grid_thw": torch.tensor([grid] * BATCH)}
    loss = model(**values, **packed).loss
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    sizes = {name: BATCH if name == "batch" else architecture.seq for name in graph.symbols}
    made = run_graph(graph, model, tensors, symbols=sizes, capacity_factor=4.0)
    torch.testing.assert_close(made[graph.loss], loss, rtol=1e-5, atol=1e-6)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    options = {"allow_unused": True, "materialize_grads": True}
    wanted = torch.autograd.grad(loss, list(parameters.values()), **options)
    found = torch.autograd.grad(made[graph.loss], list(parameters.values()), **options)
    for name, one, other in zip(parameters, wanted, found, strict=True):
        near = max(2e-5, 1e-4 * float(one.abs().max()))
        torch.testing.assert_close(other, one, rtol=1e-4, atol=near, msg=lambda m, n=name: n + m)


@pytest.mark.parametrize("architecture", list(fifths()))
def test_an_architecture_trains_the_same_as_its_graph(architecture, run_graph):
    assert_trains_the_same(architecture, run_graph)


def test_features_of_an_image_replace_rows_sample_by_sample():
    architecture = next(own for own in OTHERS if own.model_type == "llava")
    graph = capture_hf({**architecture.small, "dtype": "float32"}, batch=64, seq=architecture.seq)
    (scatter,) = [op for op in graph.ops if op.kind == "masked_scatter"]
    assert [graph.tensor(name).shape[0] for name in scatter.inputs] == ["batch"] * 3
    assert any("16 places for the features" in note for note in graph.notes)
    assert not [op.kind for op in graph.ops if "." in op.kind]


def test_sound_that_is_not_captured_is_named():
    settings = tiny_config("qwen2_audio", {})
    graph = capture_hf({**settings, "dtype": "float32"}, batch=64, seq=TEXT)
    assert "the graph is that of a sample without sound: input_features is not captured" in (
        graph.notes
    )


def test_a_text_too_short_for_its_image_is_refused():
    architecture = next(own for own in OTHERS if own.model_type == "llava")
    with pytest.raises(Exception, match="does not hold the 16 tokens of an image"):
        capture_hf(architecture.small, batch=64, seq=12)
