"""The layers of a graph are all of its layers, the first and the last and those that differ."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from meshwright.schema import Graph, Setup
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.planning.degrees.layer_cuts import equal_cuts
from tests.solver.layered import layered
from tests.solver.pipeline.stacks import Stack

EXAMPLES = Path(__file__).parents[3] / "examples" / "graphs"


def _first_ops(graph: Graph) -> list[str]:
    anatomy = Anatomy(graph)
    return [anatomy.order[place].name for place in layer_begins(anatomy)]


@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("llama3-8b", 32, "model.layers.{}.input_layernorm"),
        ("llama3-70b", 80, "model.layers.{}.input_layernorm"),
        ("llama3-405b", 126, "model.layers.{}.input_layernorm"),
        ("mixtral-8x7b", 32, "model.layers.{}.input_layernorm"),
        ("gpt3-175b", 96, "transformer.h.{}.ln_1"),
        ("bert-large", 24, "bert.encoder.layer.{}.attention.self.query"),
        ("vit-l16", 24, "vit.layers.{}.layernorm_before"),
    ],
)
def test_a_real_model_has_as_many_layers_as_it_says(name: str, count: int, first: str) -> None:
    graph = Graph.from_json(gzip.decompress((EXAMPLES / f"{name}.json.gz").read_bytes()))
    assert _first_ops(graph) == [first.format(layer) for layer in range(count)]


def test_what_repeats_nothing_has_no_layers() -> None:
    # fewer than four layers may be chance
    assert len(layer_begins(Anatomy(layered(2)))) == 0
    assert len(layer_begins(Anatomy(layered(9)))) == 9


def test_dense_layers_before_mixtures_are_layers_of_one_stack() -> None:
    stack = Stack()
    stack.decoder(["dense"] * 3 + ["experts"] * 5)  # as in DeepSeek-V3
    assert _first_ops(stack.graph()) == [f"{layer}.norm" for layer in range(8)]


def test_layers_with_every_fourth_attention_different_are_layers_of_their_own() -> None:
    stack = Stack()
    stack.decoder(["dense", "dense", "dense", "window"] * 2)  # as in Gemma 3 and Command A
    assert _first_ops(stack.graph()) == [f"{layer}.norm" for layer in range(8)]


def test_a_parallel_layer_is_one_block() -> None:
    stack = Stack()
    stack.decoder(["parallel"] * 6)
    assert _first_ops(stack.graph()) == [f"{layer}.norm" for layer in range(6)]


def test_an_encoder_and_a_decoder_have_layers_each() -> None:
    stack = Stack()
    encoded = stack.decoder(["dense"] * 6)
    stack.decoder(["cross"] * 6, encoded)  # as in T5
    assert _first_ops(stack.graph()) == [f"{layer}.norm" for layer in range(12)]


def test_a_first_layer_with_a_bias_of_its_own_is_a_layer() -> None:
    stack = Stack()
    stack.decoder(["biased", *["dense"] * 5])  # as in T5, whose first layer has the position bias
    assert _first_ops(stack.graph()) == [f"{layer}.norm" for layer in range(6)]


@pytest.mark.parametrize("seed", range(12))
def test_a_random_stack_has_the_layers_that_it_was_made_of(seed: int) -> None:
    random = Random(seed)
    count = random.randint(5, 24)
    kinds = random.choice((["dense"], ["dense", "window"], ["dense", "experts"], ["parallel"]))
    stack = Stack(width=random.choice((16, 48)), norm_ops=random.randint(1, 4))
    stack.decoder([random.choice(kinds) for _ in range(count)])
    assert _first_ops(stack.graph()) == [f"{layer}.norm" for layer in range(count)]


def test_four_stages_of_thirty_two_layers_have_eight_each() -> None:
    stack = Stack()
    stack.decoder(["dense"] * 32)
    anatomy = Anatomy(stack.graph())
    cuts = equal_cuts(anatomy, Setup(), 4)
    assert [anatomy.order[cut].name for cut in cuts] == ["8.norm", "16.norm", "24.norm"]
