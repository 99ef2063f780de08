"""Dtypes of a capture: `--dtype`, `--autocast`, sizes of symbols, and notes on precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from meshwright.capture import Recipe, capture_factory, capture_hf, capture_module
from meshwright.schema import GraphError
from tests.capture.tiny_configs import tiny_config

HERE = f"{__name__}:"


class Small(nn.Module):
    def __init__(self, *, widens=False):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 5)
        self.register_buffer("scale", torch.ones(8, dtype=torch.float64))
        self.register_buffer("order", torch.arange(8))
        self.widens = widens

    def forward(self, x, labels):
        logits = self.down(self.up((x * self.scale.to(x.dtype))[..., self.order]).relu())
        if self.widens:
            logits = logits.float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def small_inputs(sizes):
    rows = sizes["batch"], sizes["seq"]
    return {
        "x": torch.zeros(*rows, 8, device="meta"),
        "labels": torch.zeros(rows, dtype=torch.long, device="meta"),
    }


def recipe():
    return Recipe("small", Small(widens=True), small_inputs, {"batch": 4, "seq": 16})


def low_recipe():
    return Recipe("small", Small(), small_inputs, {"batch": 4, "seq": 16}, dtype=torch.bfloat16)


def region_recipe():
    return Recipe("small", Small(), small_inputs, {"batch": 4, "seq": 16}, autocast="float16")


def dtypes_of(graph, *roles):
    return {t.name: t.dtype for t in graph.tensors if t.role in roles}


def test_a_dtype_converts_parameters_buffers_and_floating_inputs():
    module = Small(widens=True)
    graph = capture_module(
        module, small_inputs, symbols={"batch": 4, "seq": 16}, name="small", dtype="bfloat16"
    )
    assert set(dtypes_of(graph, "parameter").values()) == {"bfloat16"}
    assert dtypes_of(graph, "input", "label", "buffer") == {
        "x": "bfloat16", "labels": "int64", "scale": "bfloat16", "order": "int64",
    }  # fmt: skip
    assert graph.tensor(graph.loss).dtype == "float32"
    assert graph.notes == ()
    assert module.up.weight.dtype == torch.float32


def test_a_graph_in_bfloat16_has_the_numbers_of_the_converted_module(run_graph):
    torch.manual_seed(0)
    module = Small(widens=True).bfloat16()
    graph = capture_factory(f"{HERE}recipe", dtype="bfloat16")
    batch = {
        "x": torch.randn(3, 7, 8, dtype=torch.bfloat16),
        "labels": torch.randint(0, 5, (3, 7)),
    }
    loss = module(**batch)
    made = run_graph(graph, module, batch, symbols={"batch": 3, "seq": 7})[graph.loss]
    torch.testing.assert_close(made, loss, rtol=0, atol=0)


def test_a_loss_in_low_precision_is_kept_and_noted():
    graph = capture_factory(f"{HERE}low_recipe")
    assert graph.tensor(graph.loss).dtype == "bfloat16"
    (note,) = graph.notes
    assert note.startswith("the loss is in bfloat16, because the module computes it from bfloat16")


def test_a_loss_under_autocast_is_float32():
    graph = capture_factory(f"{HERE}region_recipe")
    assert graph.tensor(graph.loss).dtype == "float32"
    assert {graph.tensor(op.outputs[0]).dtype for op in graph.ops if op.kind == "linear"} == {
        "float16"
    }
    assert graph.notes == ()


def test_options_replace_the_recipes_own():
    graph = capture_factory(f"{HERE}low_recipe", dtype="float16")
    assert set(dtypes_of(graph, "parameter").values()) == {"float16"}


def test_a_dtype_replaces_that_of_a_configuration(config):
    graph = capture_hf(config("llama"), batch=64, seq=32, dtype="bfloat16")
    assert set(dtypes_of(graph, "parameter").values()) == {"bfloat16"}
    assert graph.tensor(graph.loss).dtype == "float32"


def test_sizes_are_given_by_symbol():
    graph = capture_factory(f"{HERE}recipe", batch=8, sizes={"seq": 32})
    assert graph.symbols == {"batch": 8, "seq": 32}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "--dtype has no dtype 'int8'. Use bfloat16, float16, float32, float64"),
        ({"autocast": "float32"}, "--autocast has no dtype 'float32'. Use bfloat16, float16"),
        (
            {"sizes": {"depth": 3}},
            "the recipe has no symbol 'depth' for 3 to stand for; its symbols are batch, seq. "
            "Leave 'depth' out",
        ),
        ({"sizes": {"seq": 0}}, "symbol 'seq' is 0. Use a size of at least 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(GraphError, match=message):
        capture_factory(f"{HERE}recipe", **options)


@pytest.mark.parametrize("model_type", ["t5", "swin"])
def test_biases_of_attention_are_cast_under_autocast(model_type: str) -> None:
    config = tiny_config(model_type, {})
    graph = capture_hf(config, batch=4, seq=16, autocast="bfloat16")
    dtype_of = {tensor.name: tensor.dtype for tensor in graph.tensors}
    attentions = [op for op in graph.ops if op.kind == "attention" and len(op.inputs) > 3]
    assert attentions
    assert {dtype_of[op.inputs[3]] for op in attentions} == {"bfloat16"}
