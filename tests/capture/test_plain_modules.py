"""The plain modules train the same as their graphs, when small."""

import pytest
import torch

from meshwright.capture import capture_module
from tests.capture.plain_modules import MODULES, PlainModule
from tests.capture.rotation import rotating
from tests.capture.training import assert_trains_the_same

SIZES = {"batch": 4, "edges": 20}


def captured(plain: PlainModule):
    torch.manual_seed(0)
    recipe = plain.make(True)
    return recipe, capture_module(
        recipe.module, recipe.inputs, symbols=recipe.symbols, name=recipe.name
    )


@pytest.mark.parametrize("plain", list(rotating(MODULES, lambda plain: plain.name)))
def test_a_module_trains_the_same_as_its_graph(plain, run_graph):
    recipe, graph = captured(plain)
    values = {
        name: torch.rand(tensor.shape)
        if tensor.is_floating_point()
        else torch.randint(0, 4, tensor.shape)
        for name, tensor in recipe.inputs(SIZES).items()
    }
    model = recipe.module.train()
    # dropout draws the same numbers in the same order
    torch.manual_seed(1)
    loss = model(**values)
    torch.manual_seed(1)
    sizes = {name: SIZES[name] for name in graph.symbols}
    made = run_graph(graph, model, values, symbols=sizes)
    # the text of the last block of an MMDiT is read by no one
    assert_trains_the_same(dict(model.named_parameters()), loss, made[graph.loss])


@pytest.mark.parametrize(("name", "kind"), [("gnn", "unsorted_segment_sum"), ("dlrm", "embedding")])
def test_sums_by_number_have_a_kind_that_shards(name, kind):
    (plain,) = [own for own in MODULES if own.name == name]
    _, graph = captured(plain)
    assert kind in {op.kind for op in graph.ops}
    assert not [op.kind for op in graph.ops if "." in op.kind]


def test_a_checkpointed_block_is_named_in_a_note():
    (plain,) = [own for own in MODULES if own.name == "checkpointed"]
    _, graph = captured(plain)
    assert any("torch.utils.checkpoint" in note for note in graph.notes)
