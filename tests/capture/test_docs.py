"""docs/capture.md says what is there."""

import re
from pathlib import Path

import pytest

from examples.catalogue import EXAMPLES
from meshwright.capture import capture_factory, capture_hf, passes
from meshwright.reports.precision import graph_precision
from meshwright.schema import GraphError
from tests.capture.architectures import ARCHITECTURES

DOCS = (Path(__file__).parents[2] / "docs" / "capture.md").read_text()


def test_every_pass_is_in_the_docs():
    files = {rewrite.__module__.rpartition(".")[2] for rewrite in passes.PASSES}
    assert [name for name in sorted(files) if f"`{name}`" not in DOCS] == []


def test_the_table_of_examples_counts_their_ops():
    for example in EXAMPLES:
        assert f"| {example.name} | {len(example.load().ops):,} |" in DOCS


def test_the_table_of_architectures_has_all_of_them_and_none_with_unknown_kinds():
    table = DOCS[DOCS.index("## Architectures") : DOCS.index("## Known limits")]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert [row[1] for row in rows] == [own.model_type for own in ARCHITECTURES]
    assert {row[5] for row in rows} == {"none"}


def test_the_table_of_architectures_counts_their_ops():
    """Of two that are captured in a second."""
    for architecture in ARCHITECTURES:
        if architecture.model_type in ("electra", "resnet"):
            graph = capture_hf(architecture.whole, batch=16, seq=architecture.seq)
            assert re.search(rf"\| {architecture.model_type} \|.*\| {len(graph.ops):,} \|", DOCS)


def test_the_outputs_of_precision_and_sizes_are_those_of_the_recipe(tmp_path, monkeypatch):
    source = next(
        text for text in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "class Net" in text
    )
    (tmp_path / "my_models.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    for options in ({}, {"dtype": "bfloat16"}):
        graph = capture_factory("my_models:recipe", batch=32, **options)
        assert f"{len(graph.ops)} ops, {len(graph.tensors)} tensors" in DOCS
        (note,) = [note for note in (*graph.notes, graph_precision(graph)) if note]
        assert f"note: {note}\n" in DOCS
    with pytest.raises(GraphError) as refused:
        capture_factory("my_models:recipe", batch=32, sizes={"depth": 3})
    assert str(refused.value) in DOCS
