from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.agent.resume_log import Journal
from meshwright.schema import InvalidInput
from meshwright.schema.samples import CollectiveSample, KernelSample

ABOUT = {"device": "CPU", "sizes": [1, 2]}
KERNEL = KernelSample(
    kind="memory", dtype="float32", shape=(8,), flops=8, bytes_moved=64, ns=5, spread_ns=1, runs=5
)
AMONG = CollectiveSample(
    kind="send", dtype="float32", payload_bytes=8, extents=(1, 2), ns=9, spread_ns=0, runs=5
)


def test_what_was_measured_is_there_after_a_crash(tmp_path: Path):
    path = tmp_path / "j"
    first = Journal(path, ABOUT)
    first.add("one", KERNEL)
    first.add("two", AMONG)  # and no close
    assert Journal(path, ABOUT).samples == {"one": KERNEL, "two": AMONG}


@pytest.mark.parametrize("kept", [1, 20, 60])
def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path, kept: int):
    path = tmp_path / "j"
    journal = Journal(path, ABOUT)
    journal.add("one", KERNEL)
    whole = path.stat().st_size
    journal.add("two", AMONG)
    path.write_bytes(path.read_bytes()[: whole + kept])
    again = Journal(path, ABOUT)
    assert set(again.samples) == {"one"}
    again.add("two", AMONG)
    assert set(Journal(path, ABOUT).samples) == {"one", "two"}


def test_samples_of_something_else_are_not_mixed_in(tmp_path: Path):
    Journal(tmp_path / "j", ABOUT).add("one", KERNEL)
    with pytest.raises(InvalidInput, match="another cluster"):
        Journal(tmp_path / "j", {**ABOUT, "sizes": [1, 4]})


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path):
    path = tmp_path / "thesis.txt"
    path.write_text("Chapter 1\nOnce upon a time\n")
    with pytest.raises(InvalidInput, match="not a journal of samples"):
        Journal(path, ABOUT)
    assert path.read_text().startswith("Chapter 1")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InvalidInput, match="nowhere"):
        Journal(tmp_path / "nowhere" / "j", ABOUT)
