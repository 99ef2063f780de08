"""docs/how-to/capture.md and docs/reference/architectures.md say what is there."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from examples.catalogue import EXAMPLES
from meshwright.capture import capture_factory, capture_hf, hf, passes
from meshwright.reports.precision import graph_precision
from meshwright.schema import GraphError
from tests.capture.architectures import ARCHITECTURES
from tests.capture.published_parameters import PUBLISHED

FOLDER = Path(__file__).parents[2] / "docs"
CONFIGS = FOLDER.parent / "examples" / "configs"
DOCS = (FOLDER / "how-to" / "capture.md").read_text()
ARCHITECTURES_PAGE = (FOLDER / "reference" / "architectures.md").read_text()


def test_every_pass_is_in_the_docs():
    files = {rewrite.__module__.rpartition(".")[2] for rewrite in passes.PASSES}
    assert [name for name in sorted(files) if f"`{name}`" not in DOCS] == []


def test_the_example_of_unknown_ops_prints_what_the_docs_say():
    (example, printed) = re.findall(
        r"```python\n([^`]*logcumsumexp[^`]*)```\n\nprints\n\n((?:    .*\n)+)", DOCS
    )[0]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", example],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout == textwrap.dedent(printed)


def test_the_table_of_examples_counts_their_ops():
    for example in EXAMPLES:
        assert f"| {example.name} | {len(example.load().ops):,} |" in DOCS


def rows_of_architectures():
    """The rows of the table of architectures by name, as lists of cells."""
    rows = [line.split(" | ") for line in ARCHITECTURES_PAGE.splitlines() if line.startswith("| ")]
    return {row[1]: row for row in rows[2:]}


def test_the_table_of_architectures_has_rows_in_order_and_none_with_unknown_kinds():
    rows = rows_of_architectures()
    assert list(rows) == [own.name for own in ARCHITECTURES if own.name in rows]
    assert [row for row in rows.values() if not row[5].endswith("%")] == []


def test_the_table_of_architectures_states_the_published_numbers_with_their_sources():
    published = {name: row[3] for name, row in rows_of_architectures().items()}
    assert published == {
        name: PUBLISHED[name].cell if name in PUBLISHED else "" for name in published
    }


def test_the_table_of_architectures_counts_their_ops():
    """Of one that is captured in a second."""
    (electra,) = (own for own in ARCHITECTURES if own.name == "electra")
    graph = capture_hf(electra.whole, batch=16, seq=electra.seq)
    assert rows_of_architectures()["electra"][6] == f"{len(graph.ops):,}"


def test_the_outputs_of_precision_and_sizes_are_those_of_the_recipe(tmp_path, monkeypatch):
    source = next(
        text for text in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "class Net" in text
    )
    (tmp_path / "my_models.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    for options in ({}, {"dtype": "bfloat16"}):
        graph = capture_factory("my_models:recipe", batch=32, **options)
        assert f"{len(graph.ops)} ops, {len(graph.tensors)} tensors" in DOCS
        (note,) = [note for note in (*graph.notes, graph_precision(graph)) if note]
        assert f"note: {note}\n" in DOCS
    with pytest.raises(GraphError) as refused:
        capture_factory("my_models:recipe", batch=32, sizes={"depth": 3})
    assert str(refused.value) in DOCS


def test_the_models_from_configurations_have_as_many_parameters_as_the_page_says():
    page = (FOLDER / "explanation" / "examples.md").read_text()
    table = page[page.index("## Models from their configurations") :]
    rows = re.findall(r"^\| ([a-z0-9.-]+) \| ([\d.,]+)B \|", table, re.MULTILINE)
    assert len(rows) == 8
    for name, billions in rows:
        settings = json.loads((CONFIGS / f"{name}.json").read_text())
        config = hf.build_config(settings)
        with torch.device("meta"):
            model = hf.head_of(settings, config)._from_config(config, dtype=torch.bfloat16)
        count = sum(parameter.numel() for parameter in model.parameters())
        stated = float(billions.replace(",", ""))
        digits = len(billions.partition(".")[2])
        assert round(count / 1e9, digits) == stated, name
