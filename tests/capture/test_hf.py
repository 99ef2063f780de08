"""Configurations: which model is built from them, and what is refused."""

import json

import pytest

from meshwright.capture import capture_hf
from meshwright.schema import GraphError


def test_a_config_file_lends_the_graph_its_name(config, tmp_path):
    path = tmp_path / "tiny-llama.json"
    path.write_text(json.dumps(config("llama")))
    graph = capture_hf(path, batch=8, seq=16)
    assert graph.name == "tiny-llama"
    assert graph.symbols == {"batch": 8, "seq": 16}
    roles = {tensor.name: tensor.role for tensor in graph.tensors}
    assert roles["input_ids"] == "input"
    assert roles["labels"] == "label"
    assert roles["model.layers.0.self_attn.q_proj.weight"] == "parameter"


@pytest.mark.parametrize("name", ["llama", "gpt2", "mixtral", "bert"])
def test_a_batch_of_one_is_captured_as_any_other(config, name):
    graphs = [capture_hf(config(name), batch=batch, seq=16).to_dict() for batch in (1, 8)]
    assert [graph.pop("symbols")["batch"] for graph in graphs] == [1, 8]
    assert graphs[0] == graphs[1]


def test_the_sequence_is_the_longest_one_by_default(config):
    assert capture_hf(config("llama"), batch=8).symbols["seq"] == 64


def test_the_head_follows_from_the_model_type_without_architectures(config):
    settings = config("llama")
    del settings["architectures"]
    assert capture_hf(settings, batch=8, seq=16).loss is not None


def test_parameters_are_bfloat16_unless_the_config_says_otherwise(config):
    settings = config("gpt2")
    assert capture_hf(settings, batch=8, seq=16).tensor("lm_head").dtype == "float32"
    del settings["dtype"]
    assert capture_hf(settings, batch=8, seq=16).tensor("lm_head").dtype == "bfloat16"


def test_dropout_is_off(config):
    settings = {**config("gpt2"), "resid_pdrop": 0.1, "attn_pdrop": 0.1, "embd_pdrop": 0.1}
    graph = capture_hf(settings, batch=8, seq=16)
    assert all(op.kind != "dropout" and "dropout" not in op.attrs for op in graph.ops)


def test_tied_weights_are_one_parameter(config):
    graph = capture_hf({**config("llama"), "tie_word_embeddings": True}, batch=8, seq=16)
    readers = [op.name for op in graph.ops if "model.embed_tokens.weight" in op.inputs]
    assert readers == ["model.embed_tokens", "lm_head"]


def test_a_sliding_window_is_not_mistaken_for_a_causal_mask(config):
    graph = capture_hf({**config("mixtral"), "sliding_window": 16}, batch=8, seq=60)
    attention = [op for op in graph.ops if op.kind == "attention"]
    assert all(op.attrs["causal"] and op.attrs["window"] == 16 for op in attention)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": None}, "no model_type"),
        ({"model_type": "no-such-model"}, "no-such-model"),
        ({"dtype": "int4"}, "int4"),
        ({"hidden_size": "wide"}, "cannot build a LlamaConfig .*'hidden_size' expected int"),
        ({"hidden_size": 65}, "not a multiple of the number of attention heads"),
        ({"vocab_size": -5}, "cannot build a LlamaForCausalLM of this config: .*negative"),
        ({"num_key_value_heads": 3}, "LlamaForCausalLM cannot be traced: "),
    ],
)
def test_a_config_that_cannot_be_built_is_refused(config, change, message):
    with pytest.raises(GraphError, match=message):
        capture_hf({**config("llama"), **change}, batch=8, seq=16)


@pytest.mark.parametrize(
    ("typo", "field"),
    [
        ("num_hiden_layers", "num_hidden_layers"),
        ("num_hidden_layer", "num_hidden_layers"),
        ("hiddensize", "hidden_size"),
        ("intermedate_size", "intermediate_size"),
        ("num_key_value_head", "num_key_value_heads"),
        ("tie_word_embedding", "tie_word_embeddings"),
        ("vocabsize", "vocab_size"),
    ],
)
def test_a_misspelled_key_is_refused_with_the_field(config, typo, field):
    settings = config("llama")
    settings[typo] = settings.pop(field, 1)
    with pytest.raises(GraphError, match=f"unknown key '{typo}'. Use '{field}'"):
        capture_hf(settings, batch=8, seq=16)


def test_keys_that_transformers_does_not_read_are_noted(config):
    settings = {**config("llama"), "ep_size": 1, "n_layers": 48, "rope_theta": 5e5, "_commit": "x"}
    (note,) = [note for note in capture_hf(settings, batch=8, seq=16).notes if "reads no" in note]
    assert note == "transformers reads no config key 'ep_size', 'n_layers'"


def test_a_sequence_beyond_the_positions_is_refused(config):
    with pytest.raises(GraphError, match="64 positions"):
        capture_hf(config("llama"), batch=8, seq=65)


def test_a_model_without_a_table_of_positions_reads_any_length():
    sizes = {"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 48, "vocab_size": 97}
    graph = capture_hf({"model_type": "xlnet", "dtype": "float32", **sizes}, batch=8, seq=100_000)
    assert graph.symbols["seq"] == 100_000


def test_a_file_that_is_no_config_is_refused(tmp_path):
    with pytest.raises(GraphError, match="cannot read"):
        capture_hf(tmp_path / "missing.json", batch=8)
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(GraphError, match="JSON object"):
        capture_hf(tmp_path / "list.json", batch=8)
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(GraphError, match="not JSON"):
        capture_hf(tmp_path / "text.json", batch=8)
