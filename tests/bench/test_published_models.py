from __future__ import annotations

import pytest

from bench.closed_form.runs import Runs
from bench.published_models import model_of
from bench.published_rows import rows_of
from bench.published_table import NotPredictable

STRATEGY = {"hw": "H100", "gpus": "8", "gbs": "64", "seq_len": "4096"}


def runs(**row: str) -> Runs:
    return rows_of([{**STRATEGY, **row}]).runs


@pytest.mark.parametrize(
    ("model", "billions", "active"),
    [
        ("nemotron_3_nano", 31.6, 3.2),  # arXiv:2512.20848: 31.6 billion, 3.2 a token
        ("Nemotron-H 8B", 8.1, 8.1),  # arXiv:2504.03624: 8 billion
        ("nemotron-h-56b", 56.0, 56.0),  # the same: 56 billion
    ],
)
def test_hybrids_have_their_published_parameters(model: str, billions: float, active: float):
    own = runs(model=model)
    layers, words = own.layers, own.vocabulary * own.hidden
    experts = layers * own.expert_parameters
    rest = layers * own.layer_parameters + 2 * words
    assert (rest + experts) / 1e9 == pytest.approx(billions, rel=0.04)
    visited = experts * own.top_k / own.experts if own.experts[0] else 0.0
    without_embedding = rest - words if own.experts[0] else rest
    assert (without_embedding + visited) / 1e9 == pytest.approx(active, rel=0.04)


def test_latent_attention_has_narrow_products():
    # DeepSeek-V3 (arXiv:2412.19437): 187 million parameters of attention a layer
    row = {
        "layers": "61", "hidden": "7168", "heads": "128", "head_dim": "128", "ffn": "18432",
        "glu": "1", "moe_experts": "256", "moe_topk": "8", "moe_ffn": "2048",
        "moe_shared_ffn": "2048", "moe_dense_layers": "3", "arch_family": "moe-mla",
    }  # fmt: skip
    own = runs(**row)
    attention = own.hidden * (own.qkv_width + own.heads * own.head_dim)
    assert attention / 1e6 == pytest.approx(187, rel=0.01)
    total = own.layers * (own.layer_parameters + own.expert_parameters) + 2 * 129_280 * own.hidden
    assert total / 1e9 == pytest.approx(671, rel=0.01)


def test_a_window_leaves_few_pairs_of_tokens():
    # where s tokens see the last s / 2 there are 1 + 2 + ... s / 2, then s / 2 times s / 2 pairs:
    # s^2 / 8 + s^2 / 4 of s^2 / 2, three quarters; half of the layers have no window
    for model, tokens, share in (
        ("gpt-oss-20b", 256, (1 + 3 / 4) / 2),
        ("gemma2-9b", 8192, (1 + 3 / 4) / 2),
        ("Mistral-7B-v0.1", 256, 1),
        ("mixtral-8x7b", 8192, 1),
    ):
        row = {"layers": "2", "hidden": "64", "heads": "4", "seq_len": str(tokens)}
        assert model_of({**row, "model": model})[0]["attended"] == share


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
def test_a_model_of_known_size_only_is_a_gpt_of_that_size(row: dict[str, str], billions: float):
    own = runs(**row)
    assert own.layers * own.layer_parameters / 1e9 == pytest.approx(billions, rel=0.2)
    assert model_of({**STRATEGY, **row})[1].startswith("dimensions guessed")


def test_a_model_of_which_nothing_is_known_is_refused():
    with pytest.raises(NotPredictable, match="hidden"):
        model_of({"model": "unheard_of"})
    with pytest.raises(NotPredictable, match="heads"):
        model_of({"model": "llama-7b", "hidden": "4096", "layers": "32"})
