"""Every class of bad input gets one clear message from the command line, and code 2."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests.clients.conftest import Run
from tests.service.samples import GRAPH, bad_graph


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("cycle", "part of a cycle"),
        ("unknown tensor", "'nowhere'"),
        ("two producers", "two producers"),
        ("shape against rule", "3 inputs, the op has 2"),
        ("duplicate tensor", "listed twice"),
        ("duplicate op", "listed twice"),
        ("absurd size", "1152921504606846976"),
        ("deep attribute", "nested deeper"),
        ("unknown field", "colour"),
        ("a million ops", "at most 200,000 ops"),
    ],
)
def test_a_bad_graph_is_refused_by_name(run: Run, tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(bad_graph(change)))
    for command in (("validate", path), ("plan", path, "--topology", "h100-1x8")):
        refused(run, *command, said=said)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.json", b"", "not JSON"),
        ("text.json", b"hello", "not JSON"),
        ("list.json", b"[]", "a list"),
        ("nan.json", b'{"ops": NaN}', "finite"),
        ("twice.json", b'{"ops": [], "ops": [1]}', "'ops' is given twice"),
        ("deep.json", b"[" * 100_000, ""),
        ("cut.json.gz", gzip.compress(b"{}" * 500, mtime=0)[:-9], "not whole gzip"),
        ("plain.json.gz", b"{}", "not whole gzip"),
        ("cut.json.zst", zstandard.compress(b"{}" * 500)[:-1], "cut off"),
        ("plain.json.zst", b"{}", "not valid zstd"),
        ("bomb.json.zst", zstandard.compress(bytes(520 << 20)), "more than"),
    ],
)
def test_a_file_that_is_no_document_is_refused(
    run: Run, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    refused(run, "plan", path, "--topology", "h100-1x8", said=said)
    refused(run, "plan", path, "--topology", "h100-1x8", said=name)  # which file it is


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--topology", "abacus-8x8"), "abacus"),
        (("--topology", "missing.json"), "missing.json cannot be read"),
        (("--topology", "h100-1x8", "--seq", "0"), "greater than or equal to 1"),
        (("--topology", "h100-1x8", "--batch", "0"), "greater than or equal to 1"),
        (("--topology", "h100-1x8", "--batch", "8", "--microbatches", "3"), "equal microbatches"),
        (("--topology", "h100-1x8", "--pin", "nonsense"), "no ':'"),
        (("--topology", "h100-1x8", "--pin", "*:b"), "not factor=axis"),
        (("--topology", "h100-1x8", "--pin", "*:(8,1)"), "not a list of cuts"),
        (("--topology", "h100-1x8", "--solver", "luck"), "none of auto, "),
        (("--topology", "h100-1x8", "--rest", "guess"), "none of data_parallel, propagate"),
        (("--topology", "h100-1x8", "--slice-alignment", "0"), "--slice-alignment"),
        (("--topology", "h100-1x8", "--dataset", "some"), "/dataset"),
        (
            ("--topology", "h100-1x8", "--pipeline", "0"),
            "nor none nor auto",
        ),
        (
            ("--topology", "h100-1x8", *2 * ("--fusion", "all_reduce=auto")),
            "--fusion: all_reduce is given twice",
        ),
        (("--topology", "h100-1x8", "--phase", "rest"), "/phase"),
        (("--topology", "h100-1x8", "--module", "nowhere"), "matches no op"),
        (("--topology", "h100-1x8", "--budget", "-1"), "-1"),
        (("--topology", "h100-1x8", "--axes", "9"), "9"),
        (("--topology", "h100-1x8", "--setup", "missing.json"), "missing.json"),
        ((), "--topology"),
    ],
)
def test_a_bad_option_is_refused(
    run: Run, graph_file: Path, options: tuple[str, ...], said: str
) -> None:
    refused(run, "plan", graph_file, *options, said=said)


def test_a_missing_file_is_refused(run: Run) -> None:
    refused(run, "validate", "nowhere.json", said="nowhere.json cannot be read")
    refused(run, "show", "nowhere.json", said="nowhere.json cannot be read")


def test_an_output_that_cannot_be_written_leaves_nothing(
    run: Run, graph_file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "missing" / "plan.json"
    refused(run, "plan", graph_file, "--topology", "h100-1x2", "-o", target, said="cannot be wri")
    assert not target.parent.exists()


def test_an_output_that_is_no_file_is_written_to_and_not_replaced(
    run: Run, graph_file: Path, tmp_path: Path
) -> None:
    """As root a rename would make a file of /dev/null."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link.json", tmp_path / "target.json"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert run("plan", graph_file, "--topology", "h100-1x2", "-o", pipe).code == 0
    said, _ = reader.communicate(timeout=120)
    assert json.loads(said)["plan"]
    assert pipe.is_fifo()
    link.symlink_to(target)
    assert run("plan", graph_file, "--topology", "h100-1x2", "-o", link).code == 0
    assert link.is_symlink()
    assert json.loads(target.read_bytes())["plan"] == json.loads(said)["plan"]


def test_a_full_disk_behind_the_results_is_said(graph_file: Path) -> None:
    command = [sys.executable, "-m", "meshwright.cli", "validate", str(graph_file)]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("meshwright: ")
    assert "No space left" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_unknown_symbol_is_refused(run: Run, tmp_path: Path) -> None:
    graph = {**GRAPH, "symbols": {"batch": 8}}
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph))
    options = ("--topology", "h100-1x8", "--seq", "128")
    refused(run, "plan", path, *options, said="no symbol 'seq'")


def refused(run: Run, *arguments: str | Path, said: str) -> None:
    """The command ends with code 2 and one message."""
    ran = run(*arguments)
    assert ran.code == 2, (ran.out, ran.err)
    assert said in ran.err, ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
