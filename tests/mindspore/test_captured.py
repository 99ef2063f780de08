"""`meshwright capture mindspore`, where MindSpore is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meshwright.cli.pins import parse_pin
from meshwright.schema import Graph
from tests.mindspore.cases import MODELS, graph_of, network
from tests.mindspore.children import ROOT, capture, compiled, run
from tests.mindspore.record import BATCHES

DOCS = (ROOT / "docs" / "how-to" / "mindspore.md").read_text()


@pytest.mark.parametrize("model", MODELS)
def test_the_recorded_graphs_are_what_mindspore_compiles_today(model: str, tmp_path: Path) -> None:
    ran = capture(model, BATCHES[model], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert Graph.from_json((tmp_path / f"{model}.json").read_text()) == graph_of(model)


def test_strategies_of_the_user_become_pins_and_unknown_operators_keep_their_name(
    tmp_path: Path,
) -> None:
    ran = capture("odd", 8, tmp_path)
    assert ran.returncode == 0, ran.stderr
    graph = Graph.from_json((tmp_path / "odd.json").read_text())
    (pin,) = [note.removeprefix("pin ") for note in graph.notes if note.startswith("pin ")]
    found = parse_pin(pin)
    assert (found.op, found.inputs, found.outputs) == ("matmul", ((4, 1), (1, 2)), ((4, 2),))
    assert "no canonical kind for mindspore.Lgamma.default; it is kept replicated" in graph.notes
    # operators of functions have no primitive, and so no module
    assert [(op.kind, op.module) for op in graph.ops if op.kind in ("relu", "add")] == [
        ("relu", ""),
        ("add", ""),
    ]


def test_hand_written_collectives_are_refused_by_name(tmp_path: Path) -> None:
    ran = capture("collective", 8, tmp_path)
    assert ran.returncode != 0
    assert "op 'Default/AllReduce-op0' (AllReduce) communicates between devices" in ran.stderr


def test_a_factory_of_something_else_is_refused(tmp_path: Path) -> None:
    ran = run(
        "meshwright.cli", "capture", "mindspore", "tests.mindspore.networks:Odd", "--batch", "8",
        "-o", tmp_path / "x.json", folder=tmp_path,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "returned a Odd; it must return a meshwright.capture.MindSporeRecipe" in ran.stderr


def test_a_primitive_that_the_network_has_not_is_named(tmp_path: Path) -> None:
    exported = network("mlp").model_copy(
        update={"primitives": {"fc9.matmul": network("mlp").primitives["fc1.matmul"]}}
    )
    with pytest.raises(AssertionError, match=r"'fc9\.matmul', and the network has no primitive"):
        compiled("mlp", exported.model_dump_json(), "shard", tmp_path)


def test_the_example_of_the_docs_is_captured(tmp_path: Path) -> None:
    (example, *_) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    (tmp_path / "my_models.py").write_text(example)
    file = tmp_path / "net.json"
    ran = run(
        "meshwright.cli", "capture", "mindspore", "my_models:recipe", "--batch", "64", "-o", file,
        folder=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    graph = Graph.from_json(file.read_text())
    assert [op.kind for op in graph.ops] == ["matmul", "relu", "matmul", "mean"]
    assert [op.module for op in graph.ops] == ["first", "act", "second", "mean"]
