"""Models for images, sound, and both with text train the same as their graphs, when small.

`make test` takes a fifth of them (tests/capture/rotation.py).
"""

import pytest
import torch

from meshwright.capture import capture_hf
from meshwright.capture.hf_inputs import HeadInputs
from tests.capture.architectures_other import OTHERS, TEXT, OtherArchitecture
from tests.capture.rotation import rotating
from tests.capture.small_transformers import input_values, small_model
from tests.capture.tiny_configs import tiny_config
from tests.capture.training import assert_trains_the_same

BATCH = 3
torch.set_num_threads(1)


def made_up(inputs: HeadInputs, seq: int) -> dict[str, object]:
    """Values of the inputs that capture feeds, with one image in every text."""
    made = input_values(inputs, batch=BATCH, seq=seq)
    if inputs.media.tokens is not None:
        token, count = inputs.media.tokens
        made["input_ids"][:, 1 : 1 + count] = token
        if "token_type_ids" in made:
            made["token_type_ids"] = (made["input_ids"] == token).long()
    if "position_ids" in made:
        made["position_ids"] = torch.arange(seq).expand(3, BATCH, seq).contiguous()
    return made


def check_architecture(architecture: OtherArchitecture, run_graph) -> None:
    settings = {**architecture.small, "dtype": "float32"}
    graph = capture_hf(settings, batch=64, seq=architecture.seq)
    model = small_model(settings)
    inputs = HeadInputs(type(model), model.config, torch.float32, batch=BATCH, seq=architecture.seq)
    values = made_up(inputs, architecture.seq)
    grid = inputs.media.grid
    packed = {} if grid is None else {"image_grid_thw": torch.tensor([grid] * BATCH)}
    loss = model(**values, **packed).loss
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    sizes = {name: BATCH if name == "batch" else architecture.seq for name in graph.symbols}
    made = run_graph(graph, model, tensors, symbols=sizes)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert_trains_the_same(parameters, loss, made[graph.loss], of_largest=1e-4)


@pytest.mark.parametrize("architecture", list(rotating(OTHERS, lambda own: own.model_type)))
def test_an_architecture_trains_the_same_as_its_graph(architecture, run_graph):
    check_architecture(architecture, run_graph)


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
