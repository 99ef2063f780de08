"""docs/capture.md and docs/architectures.md say what is there."""

from pathlib import Path

from examples.catalogue import EXAMPLES
from meshwright.capture import capture_hf, passes
from tests.capture.architectures import ARCHITECTURES

FOLDER = Path(__file__).parents[2] / "docs"
DOCS = (FOLDER / "capture.md").read_text()
ARCHITECTURES_PAGE = (FOLDER / "architectures.md").read_text()


def test_every_pass_is_in_the_docs():
    files = {rewrite.__module__.rpartition(".")[2] for rewrite in passes.PASSES}
    assert [name for name in sorted(files) if f"`{name}`" not in DOCS] == []


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


def test_the_table_of_architectures_counts_their_ops():
    """Of one that is captured in a second."""
    (electra,) = (own for own in ARCHITECTURES if own.name == "electra")
    graph = capture_hf(electra.whole, batch=16, seq=electra.seq)
    assert rows_of_architectures()["electra"][6] == f"{len(graph.ops):,}"
