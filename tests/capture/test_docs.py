"""docs/capture.md says what is there."""

from pathlib import Path

from examples.catalogue import EXAMPLES
from meshwright.capture import passes

DOCS = (Path(__file__).parents[2] / "docs" / "capture.md").read_text()


def test_every_pass_is_in_the_docs():
    files = {rewrite.__module__.rpartition(".")[2] for rewrite in passes.PASSES}
    assert [name for name in sorted(files) if f"`{name}`" not in DOCS] == []


def test_the_table_of_examples_counts_their_ops():
    for example in EXAMPLES:
        assert f"| {example.name} | {len(example.load().ops):,} |" in DOCS
