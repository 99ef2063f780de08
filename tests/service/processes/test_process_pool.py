"""Processes that work one answer out: what comes of them, whatever happens in there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from meshwright.schema import PlanError, Unavailable
from meshwright_service.common.errors import Busy, Internal
from meshwright_service.processes import process_pool
from meshwright_service.processes.process_pool import Parts, ShortProcesses, Work
from tests.service import answers
from tests.service.conftest import is_there, until

MEMORY = 2 * 2**30
TEXT = {"text": b"abc"}


def processes(count: int = 1, seconds: float = 60) -> ShortProcesses:
    return ShortProcesses(count, seconds=seconds, memory_bytes=MEMORY)


@contextmanager
def staying(made: ShortProcesses, file: Path) -> Iterator[tuple[int, Future[Parts]]]:
    """One that runs: its process id, and its answer."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(made.work, answers.stays, {"file": str(file).encode()})
        process = int(until(lambda: file.exists() and file.read_text()))
        try:
            yield process, asked
        finally:
            made.stop()


def test_bytes_go_to_another_process_and_come_back() -> None:
    made = processes()
    first, second = (made.work(answers.who, TEXT) for _ in range(2))
    assert first[5] == second[5] == b"cba"
    assert len({first[0], second[0], str(os.getpid()).encode()}) == 3


def test_errors_of_ours_come_back_as_they_are() -> None:
    with pytest.raises(PlanError, match="not abc") as raised:
        processes().work(answers.refuses, TEXT)
    assert raised.value.pointer == "/stages"


@pytest.mark.parametrize(
    ("work", "logged"),
    [
        (answers.fails, "ZeroDivisionError"),
        (answers.takes_memory, "MemoryError"),
        (answers.dies, "ended without an answer"),
    ],
)
def test_what_fails_is_a_fault_and_the_next_goes_on(
    work: Work, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = processes()
    with pytest.raises(Internal):
        made.work(work, TEXT)
    assert logged in caplog.text
    assert made.work(answers.who, TEXT)[5] == b"cba"


def test_what_takes_too_long_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(Internal, match="longer than 3 s"):
        processes(seconds=3).work(answers.stays, {"file": str(file).encode()})
    assert not is_there(int(file.read_text()))


def test_stopping_kills_what_runs_and_begins_no_more(tmp_path: Path) -> None:
    made = processes()
    with staying(made, tmp_path / "pid") as (process, asked):
        made.stop()
        with pytest.raises(Unavailable):
            asked.result(timeout=120)
        assert not is_there(process)
    with pytest.raises(Unavailable):
        made.work(answers.who, TEXT)


def test_only_so_many_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "WAITING", 0)
    made = processes()
    with staying(made, tmp_path / "pid"), pytest.raises(Busy):
        made.work(answers.who, TEXT)


def test_who_waits_too_long_is_told_to_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_pool, "PATIENCE_S", 0.01)
    made = processes()
    with staying(made, tmp_path / "pid"), pytest.raises(Busy):
        made.work(answers.who, TEXT)
