"""The layers of a graph are all of its layers: the first reads the embedding, and is one too."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from meshwright.schema import Graph
from meshwright_solver.pipeline.layers import layer_begins
from meshwright_solver.pipeline.stage_graph import Anatomy
from tests.solver.layered import layered

EXAMPLES = Path(__file__).parents[3] / "examples" / "graphs"


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
    anatomy = Anatomy(graph)
    begins = [anatomy.order[place].name for place in layer_begins(anatomy)]
    assert begins == [first.format(layer) for layer in range(count)]


def test_what_repeats_nothing_has_no_layers() -> None:
    # a folding needs seven copies
    assert len(layer_begins(Anatomy(layered(2)))) == 0
    assert len(layer_begins(Anatomy(layered(9)))) == 9
