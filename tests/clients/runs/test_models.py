"""Models of rows: dimensions as stated, and guesses from a name."""

from __future__ import annotations

from math import prod

import pytest

from meshwright.capture.decoder import decoder_graph
from meshwright.runs.models import model_of
from meshwright.runs.table import NotPredictable


def test_latent_attention_has_the_parameters_of_deepseek_v3() -> None:
    row = {
        "layers": "61", "hidden": "7168", "heads": "128", "head_dim": "128", "ffn": "18432",
        "glu": "1", "moe_experts": "256", "moe_topk": "8", "moe_ffn": "2048", "vocab": "129280",
        "moe_shared_ffn": "2048", "moe_dense_layers": "3", "arch_family": "moe-mla",
    }  # fmt: skip
    graph = decoder_graph(model_of(row)[0], batch=1, seq=4096)
    parameters = sum(prod(own.shape) for own in graph.tensors if own.role == "parameter")
    assert parameters / 1e9 == pytest.approx(671, rel=0.01)


@pytest.mark.parametrize(("tp", "vocabulary"), [(1, 50304), (8, 51200)])
def test_the_vocabulary_is_whole_tiles_on_every_rank(tp: int, vocabulary: int) -> None:
    """Megatron-LM pads GPT-2's 50,257 words to 50,304, and to 51,200 with tp 8."""
    row = {"layers": "2", "hidden": "64", "heads": "4"}
    assert model_of(row, tp=tp)[0].vocabulary == vocabulary


@pytest.mark.parametrize(
    ("row", "billions"),
    [
        ({"model": "unheard-of-13b"}, 13),
        ({"model": "Mixtral 8x7B"}, 13),
        ({"model": "unheard-of-8x22b", "params_b": "141"}, 39),
        ({"model": "DeepSeek-V3", "params_b": "671"}, 37),
        ({"model": "unheard_of", "params_b": "70.6"}, 70.6),
        ({"model": "unheard-of-30b-a3b", "params_b": "30.5"}, 3),
        ({"model": "mpt-1.5b-chat"}, 1.5),
    ],
)
def test_a_model_of_known_size_only_is_a_gpt_of_that_size(
    row: dict[str, str], billions: float
) -> None:
    model, note = model_of(row)
    assert 12 * model.layers * model.hidden**2 / 1e9 == pytest.approx(billions, rel=0.2)
    assert note.startswith("dimensions guessed")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"model": "unheard_of"}, "hidden"),
        ({"model": "llama-7b", "hidden": "4096", "layers": "32"}, "heads"),
        ({"model": "Nemotron-H 8B"}, "hybrids"),
    ],
)
def test_a_model_of_which_too_little_is_known_is_refused(row: dict[str, str], reason: str) -> None:
    with pytest.raises(NotPredictable, match=reason):
        model_of(row)
